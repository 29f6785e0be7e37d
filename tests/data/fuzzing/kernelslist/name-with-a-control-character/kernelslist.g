kernel[2J.traceg
