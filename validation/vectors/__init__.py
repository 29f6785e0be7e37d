"""The vectors that the assembler makes of neighbouring accesses to shared memory, by compute capability."""
