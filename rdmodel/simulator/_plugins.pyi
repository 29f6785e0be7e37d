from rdmodel.simulator._loadstore import LoadStore

class Plugins(LoadStore):
    def fault_text(self) -> str: ...
