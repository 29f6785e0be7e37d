"""Execute lowered steps for the warps of a block, and record their memory accesses."""
