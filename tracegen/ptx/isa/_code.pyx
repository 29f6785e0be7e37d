# The numbers that lowering.py writes into a code table, by the names that _code.pxd gives them.
"""The codes of the emulator's steps, by name."""


def _named(kind):
    return {name: int(value) for name, value in kind.__members__.items()}


OPCODES = _named(Opcode)
KINDS = _named(Kind)
SPACES = _named(Space)
FLAGS = _named(Flag)
COMPARISONS = _named(Compare)
ROUNDINGS = _named(Rounding)
ATOMICS = _named(Atomic)
SHUFFLES = _named(Shuffle)
VOTES = _named(Vote)
MATCHES = _named(Match)
BARRIERS = _named(Barrier)
TESTS = _named(Test)
PERMUTATIONS = _named(Permute)
WINDOW_BITS = int(Window.BITS)
