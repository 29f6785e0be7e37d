"""Compare the simulator with Accel-Sim: the same traces on the machine of its configuration SM2_GTX480."""
