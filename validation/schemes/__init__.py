"""Run all schemes of cache management on SMs of three generations, and ask which still help."""
