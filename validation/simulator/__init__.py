"""The model next to the simulator, and the papers' behaviours on the simulator: how they are run and recorded."""
