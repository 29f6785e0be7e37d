"""Times of copies in a stream, by the size of their blocks, beside published ones."""
