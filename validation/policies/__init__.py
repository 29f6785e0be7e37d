"""The papers' statements on cache-management policies, held against the simulated machine."""
