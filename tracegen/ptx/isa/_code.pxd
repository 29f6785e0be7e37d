# The operations of the emulator and the layout of one step; tracegen.ptx.lowering.program.CODE_DTYPE is its dtype.

from libc.stdint cimport int32_t, int64_t, uint32_t

cpdef enum Opcode:
    # integers and bits
    MOV, ADD, SUB, MUL_LO, MUL_HI, MUL_WIDE, MAD_LO, MAD_WIDE, DIV, REM, ABS, NEG, MIN, MAX, SAD
    AND, OR, XOR, NOT, CNOT, SHL, SHR, SHF_L, SHF_R, BFE, BFI, BREV, CLZ, POPC, BFIND, PRMT, LOP3
    ADD_CARRY, CARRY, SUB_BORROW, BORROW, COMPARE, SELECT, CONVERT
    # floating point
    FADD, FSUB, FMUL, FMA, FDIV, FABS, FNEG, FMIN, FMAX, FSQRT, FRSQRT, FRCP, FEX2, FLG2, FSIN, FCOS, FTANH
    COPYSIGN, TESTP, FCOMPARE, FLOAT_TO_INT, INT_TO_FLOAT, FLOAT_TO_FLOAT
    # memory
    LOAD, STORE, ATOM, TEX, SULD, SUST
    # the data of a bulk copy; COPY_BULK records its accesses and completes its bytes
    MOVE_BULK
    # between the lanes of a warp
    SHFL, VOTE, MATCH, ACTIVEMASK, REDUX
    # steps without a value: a result that is not computed, and a wait for asynchronous copies
    POISON, WAIT
    # control
    BRA, BRX, CALL, RET, EXIT, BAR, TRAP, COPY_BULK, MBAR

cpdef enum Kind:
    UNSIGNED, SIGNED, FLOAT

cpdef enum Space:
    # FRAME: parameters of functions; KEPT: local arrays that machine code has in registers
    GLOBAL, LOCAL, SHARED, CONST, FRAME, GENERIC, KEPT

cpdef enum Flag:
    EXECUTE = 1        # compute the values; otherwise only addresses, dependences and counts matter
    TRACK = 2          # a written register may carry the result of a recorded load
    COUNTED = 4        # the first step of its instruction
    NARROW = 8         # the address register has 32 bits
    NEGATED = 16       # the guard is negated
    SATURATE = 32
    SPREAD = 64        # a variant: min.NaN keeps the NaN of an operand, shf.wrap wraps, bfind.shiftamt returns a shift
    ASYNC = 128        # the stored values arrive later: the store does not wait for their loads
    POISONED = 256     # an operand, a result or a cell of memory may be poisoned
    BLOCK = 512        # a basic block begins
    PIECE = 1024       # a straight piece of code begins, and warps that enter it are noted
    NOTED = 2048       # what the step does is noted

cpdef enum Compare:
    EQ, NE, LT, LE, GT, GE, EQU, NEU, LTU, LEU, GTU, GEU, NUM, NAN

cpdef enum Rounding:
    NEAREST, ZERO, DOWN, UP

cpdef enum Atomic:
    ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_INC, ATOMIC_DEC, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR, ATOMIC_EXCH
    ATOMIC_CAS

cpdef enum Shuffle:
    SHFL_UP, SHFL_DOWN, SHFL_BFLY, SHFL_IDX

cpdef enum Vote:
    VOTE_ALL, VOTE_ANY, VOTE_UNI, VOTE_BALLOT

cpdef enum Match:
    MATCH_ANY, MATCH_ALL

cpdef enum Barrier:
    BAR_SYNC, BAR_ARRIVE, BAR_POPC, BAR_AND, BAR_OR

cpdef enum Reduce:
    REDUX_ADD, REDUX_MIN, REDUX_MAX, REDUX_AND, REDUX_OR, REDUX_XOR

cpdef enum Mbarrier:
    MBAR_INIT, MBAR_INVAL, MBAR_ARRIVE, MBAR_DROP, MBAR_EXPECT, MBAR_COMPLETE, MBAR_TEST, MBAR_TEST_PARITY

cpdef enum Bulk:
    # from global to shared memory, from shared to global memory, and within the shared memory of a cluster; zeros
    BULK_LOAD, BULK_STORE, BULK_REDUCE, BULK_SHARED, BULK_UPDATE, BULK_CLEAR

cpdef enum Box:
    # The part of a tensor that a copy transfers: a box, pixels of a box with offsets, or rows by their numbers.
    BOX_TILE, BOX_IM2COL, BOX_ROWS

cpdef enum TensorMap:
    # Offsets of the fields of a tensor map, which has 128 bytes.
    MAP_ADDRESS = 0        # 64 bits
    MAP_RANK = 8           # minus 1
    MAP_TYPE = 12          # one byte, like the next three
    MAP_INTERLEAVE = 13
    MAP_SWIZZLE = 14
    MAP_FILL = 15
    MAP_DIMS = 16          # 5 x 32 bits: elements of the tensor
    MAP_BOX = 36           # 5 x 32 bits: elements of a box
    MAP_STEPS = 56         # 5 x 32 bits: distance of elements in a box
    MAP_STRIDES = 80       # 4 x 64 bits: bytes between neighbours in dimensions 1 to 4
    MAP_LOWER = 112        # 3 x 16 bits: the first pixel of the box of pixels along width, height and depth
    MAP_UPPER = 118        # 3 x 16 bits: its last pixel, from the last one of the tensor on
    MAP_PIXELS = 124       # one byte: 1 if the map describes pixels; MAP_BOX then has channels and pixels

cpdef enum TextureMode:
    TEXTURE_SAMPLE, TEXTURE_GATHER

cpdef enum SurfaceMode:
    SURFACE_TRAP, SURFACE_CLAMP, SURFACE_ZERO

cpdef enum AddressMode:
    ADDRESS_WRAP, ADDRESS_CLAMP, ADDRESS_MIRROR, ADDRESS_BORDER

cpdef enum Test:
    FINITE, INFINITE, NUMBER, NOTANUMBER, NORMAL, SUBNORMAL

cpdef enum Permute:
    PRMT_INDEX, PRMT_F4E, PRMT_B4E, PRMT_RC8, PRMT_ECL, PRMT_ECR, PRMT_RC16

cdef struct Code:
    int64_t op             # Opcode
    int64_t kind           # Kind of the operands; of the result for conversions
    int64_t width          # bits of the operands (of the result for conversions); per element for memory
    int64_t from_kind      # of the source of a conversion
    int64_t from_width
    int64_t dst[4]         # slots written; -1: none
    int64_t src[12]        # slots read
    int64_t guard          # slot of the guard or -1
    int64_t target         # step of a branch or call, or first entry of a branch table
    int64_t space          # Space
    int64_t count          # elements of a memory vector, entries of a branch table
    int64_t offset         # bytes added to the address
    int64_t mode           # Compare, Atomic, Shuffle, ... , or the table of lop3
    int64_t rounding       # Rounding
    int64_t flags          # Flag
    int64_t pc             # number of the PTX instruction

cpdef enum Window:
    # Generic addresses: the window of space s starts at s << BITS; global addresses lie below all windows.
    # An address in shared memory has the rank of its block in the cluster from RANK_BITS on.
    BITS = 56
    RANK_BITS = 24

# The active lanes of an instruction, in ascending order, and the warps that they belong to.
cdef struct Lanes:
    int64_t n
    int32_t* lane
    bint contiguous        # lane[i] == lane[0] + i
    int64_t warps
    int32_t warp[32]
    int32_t start[33]      # warp[k] owns the lanes start[k] to start[k + 1]
    uint32_t mask[32]
