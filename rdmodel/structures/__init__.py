"""Declare C structures that several compiled cores share: index functions, LRU lists, rings, heaps, calendars."""
