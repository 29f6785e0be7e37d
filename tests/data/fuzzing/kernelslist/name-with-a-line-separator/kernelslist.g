kernel .traceg
