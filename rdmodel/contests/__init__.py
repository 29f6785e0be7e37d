"""Simulate a kernel under several cache-management policies and compare the outcomes."""
