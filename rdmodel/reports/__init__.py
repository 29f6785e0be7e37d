"""A kernel, or several, on one page: what the caches do with them, why, and what would change it.

`making` runs everything, `values` holds what came out, `page` and the modules that it uses make HTML of that.
"""
