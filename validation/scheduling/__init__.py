"""What the assembler does with loops, and with loads behind stores and in short branches, by compute capability."""
