# The declarations of rdmodel_policy.h, which has the comments, for the engine and for plug-ins that are written in Cython.
from libc.stdint cimport int32_t, int64_t, uint64_t

cdef extern from "rdmodel_policy.h":
    enum:
        RDMODEL_POLICY_VERSION
        RDMODEL_ADMISSION
        RDMODEL_THROTTLING
        RDMODEL_USE
        RDMODEL_USE_PRESENT
        RDMODEL_BYPASS
        RDMODEL_WAIT
        RDMODEL_LOAD_PRESENT
        RDMODEL_LOAD
        RDMODEL_ABSENT
        RDMODEL_VALID
        RDMODEL_IN_FLIGHT
        RDMODEL_HIT
        RDMODEL_PENDING_HIT
        RDMODEL_MISS
        RDMODEL_BYPASSED

    ctypedef struct rdmodel_machine:
        int64_t sms
        int64_t warps
        int64_t schedulers
        int64_t sets
        int64_t ways
        int64_t line_bytes

    ctypedef struct rdmodel_warp:
        int64_t slot
        int64_t block
        int64_t warp
        int64_t age
        int64_t rank

    ctypedef struct rdmodel_access:
        int64_t line
        int64_t set
        int64_t pc
        int64_t slot
        int64_t block
        int64_t warp
        int32_t present
        int32_t store

    ctypedef struct rdmodel_line:
        int64_t line
        int64_t pc
        int64_t block
        int64_t warp
        int64_t uses
        uint64_t data

    ctypedef struct rdmodel_counters:
        int64_t warp_instructions
        int64_t thread_instructions
        int64_t hits
        int64_t pending_hits
        int64_t misses
        int64_t bypassed
        int64_t writes

    ctypedef struct rdmodel_option:
        const char* name
        double value
        double least
        double most
        int32_t whole

    ctypedef struct rdmodel_policy:
        int32_t version
        int32_t bytes
        const char* name
        const char* description
        int32_t kind
        int32_t options
        const rdmodel_option* option
        void* (*create)(const rdmodel_machine* machine, int64_t sm, const double* options) noexcept nogil
        void (*destroy)(void* state) noexcept nogil
        int32_t (*admit)(const void* state, const rdmodel_access* access) noexcept nogil
        int64_t (*replace)(
            const void* state, const rdmodel_access* access, const rdmodel_line* lines, int64_t n
        ) noexcept nogil
        int32_t (*permit)(const void* state, const rdmodel_warp* warp) noexcept nogil
        void (*loaded)(void* state, const rdmodel_access* access, int32_t outcome, uint64_t* data) noexcept nogil
        void (*replaced)(
            void* state, const rdmodel_access* access, rdmodel_line* lines, int64_t n, int64_t chosen
        ) noexcept nogil
        void (*began)(void* state, const rdmodel_warp* warp) noexcept nogil
        void (*ended)(void* state, const rdmodel_warp* warp) noexcept nogil
        void (*period_ended)(void* const* states, const rdmodel_counters* counters, int64_t sms) noexcept nogil
