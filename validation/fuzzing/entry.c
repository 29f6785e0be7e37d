/* Linked into every instrumented module: where its basic blocks report to. Places count from this function, so that
 * they are the same in every run, wherever the module is loaded. */
#include <stdint.h>

extern uint8_t feedback_hits[];
extern uint32_t feedback_last;

__attribute__((visibility("hidden"))) void __sanitizer_cov_trace_pc(void) {
    uint32_t here = (uint32_t)((uintptr_t)__builtin_return_address(0) - (uintptr_t)&__sanitizer_cov_trace_pc);
    uint8_t *hits;
    here = (here + MODULE * 0x51ed27u) * 2654435761u >> 16;
    hits = &feedback_hits[(here ^ feedback_last) & 0xffff];
    if (*hits != 255)
        ++*hits;
    feedback_last = here >> 1;
}
