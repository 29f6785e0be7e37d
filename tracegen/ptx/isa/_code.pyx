"""Number the operations, types, spaces and flags of the emulator's steps, by the names in `_code.pxd`."""


def _named(kind):
    return {name: int(value) for name, value in kind.__members__.items()}


OPCODES = _named(Opcode)
KINDS = _named(Kind)
MEMORY_SPACES = _named(Space)
FLAGS = _named(Flag)
COMPARISONS = _named(Compare)
ROUNDINGS = _named(Rounding)
ATOMICS = _named(Atomic)
SHUFFLES = _named(Shuffle)
VOTES = _named(Vote)
MATCHES = _named(Match)
BARRIERS = _named(Barrier)
REDUCTIONS = _named(Reduce)
MBARRIERS = _named(Mbarrier)
BULK_COPIES = _named(Bulk)
BOXES = _named(Box)
TENSOR_MAP = _named(TensorMap)
TEXTURE_MODES = _named(TextureMode)
SURFACE_MODES = _named(SurfaceMode)
ADDRESS_MODES = _named(AddressMode)
TESTS = _named(Test)
PERMUTATIONS = _named(Permute)
WINDOW_BITS = int(Window.BITS)
CLUSTER_RANK_BITS = int(Window.RANK_BITS)
