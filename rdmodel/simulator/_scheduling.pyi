from rdmodel.simulator._prediction import Prediction

class Scheduling(Prediction):
    limit: int
