# The form of accesses that lines of plain text become: what tracegen.formats._plain writes, and _line_groups reads.
#
# An access is two numbers, as in tracegen.formats._trc: its key (thread * 256 + kind) and its address. The kind is the
# number of bytes and the operation, with CONTINUES for accesses of a line after its first one. A kind of 0 bytes is no
# access: with the operation HOLE it takes the place of a line, otherwise it is a prelude, whose number holds the gap
# (upper half) and the program counter plus one (lower half) of the thread's next access.

cdef enum:
    WIDTH = 0x1f
    OPERATION_SHIFT = 5
    AGREEING = 0x7f         # the bits of a kind in which the lanes of an instruction agree
    CONTINUES = 0x80
    MAX_GAP = 0x7fffffff

# Operations; the others are those of rdmodel.trace.Op.
cdef enum:
    LOAD = 0
    STORE = 1
    ATOMIC = 2
    HOLE = 3
