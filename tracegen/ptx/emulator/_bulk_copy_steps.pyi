from tracegen.ptx.emulator._barrier_steps import BarrierSteps

class BulkCopySteps(BarrierSteps):
    changes_copies: bool
