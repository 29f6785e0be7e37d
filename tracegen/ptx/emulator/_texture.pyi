# Python code cannot call this module: only compiled modules use it.
