"""tracegen: everything that produces a Trace."""
