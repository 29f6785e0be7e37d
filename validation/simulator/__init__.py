"""Compare the model with the simulator, and the simulator with the behaviours that papers describe."""
