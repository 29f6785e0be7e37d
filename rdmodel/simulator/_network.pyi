class Network:
    now: int
