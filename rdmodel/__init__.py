"""rdmodel: what a GPU's caches will do with a kernel."""
