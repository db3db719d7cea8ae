"""Benchmarks: gfcr side by side with what it is compared to, in one process."""
