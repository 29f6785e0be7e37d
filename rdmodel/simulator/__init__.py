"""Simulate SMs, crossbar, L2 and DRAM from event to event: `simulate`, its options, and the compiled engine."""
