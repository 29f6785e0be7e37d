"""Helpers of several test files. No test file imports another one; shared helpers are here, by subject."""
