from rdmodel.simulator._reorder import Reordering

class Scheduling(Reordering):
    limit: int
