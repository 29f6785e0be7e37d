"""Provide the C structures of the compiled cores: index functions, LRU lists, rings, heaps and calendar queues."""
