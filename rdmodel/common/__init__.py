"""Hold the helpers that every room may use: argument checks, number formatting, kernel names, estimates."""
