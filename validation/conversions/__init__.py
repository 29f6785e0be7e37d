"""The machine instructions that the assembler makes of conversions, by compute capability."""
