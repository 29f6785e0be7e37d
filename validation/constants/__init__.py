"""The instructions with which machine code reads constant memory, by compute capability."""
