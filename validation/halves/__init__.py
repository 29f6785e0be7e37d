"""The instructions that the assembler makes of scalar arithmetic of half precision, by compute capability."""
