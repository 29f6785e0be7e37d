from enum import IntEnum

from tracegen.ptx.emulator._registers import Registers

class Status(IntEnum):
    UNFINISHED = 0
    FINISHED = 1
    OUTSIDE = 2
    TOO_LONG = 3
    DEADLOCK = 4
    TRAPPED = 5
    NO_MEMORY = 6
    UNCOMPUTED = 7

class Threads(Registers):
    step: int
    thread: int
    address: int
    instructions: int
