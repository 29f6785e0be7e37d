from tracegen.ptx.emulator._arithmetic_steps import ArithmeticSteps

class MemorySteps(ArithmeticSteps):
    slot: int
