"""Sort recorded instructions by block, warp and program order, in bounded memory."""
