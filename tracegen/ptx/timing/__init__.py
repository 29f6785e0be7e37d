"""Find the times of blocks from the steps that their warps execute: chains of instructions, units, and barriers."""
