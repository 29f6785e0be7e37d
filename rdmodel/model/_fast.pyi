from rdmodel.model._core import Core
from rdmodel.model._generators import GeneratorState

class FastCore(Core):
    def seed(self, latencies: GeneratorState, choices: GeneratorState, sigma: float) -> None: ...
