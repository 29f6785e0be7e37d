"""Check the claims of papers about cache-management policies in the simulator."""
