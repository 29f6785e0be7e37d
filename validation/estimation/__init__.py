"""Whether quick estimates are near, and their intervals honest: against exact runs."""
