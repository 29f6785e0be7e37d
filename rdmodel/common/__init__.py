"""Provide the helpers of all rooms: argument checks, number formatting, kernel names, progress, estimates."""
