"""Provide helpers for all packages: argument checks, number formatting, kernel names, progress, estimates."""
