"""The machine code of loops, of loads behind stores and of loads in short branches, by compute capability."""
