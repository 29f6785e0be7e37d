from rdmodel.simulator._residency import Residency

class Scheduling(Residency):
    limit: int
