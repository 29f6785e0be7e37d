"""Sort recorded rows by block, warp and program order, in bounded memory."""
