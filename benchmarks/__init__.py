"""Benchmarks of gfcr, side by side with what it is compared to: `gfcr bench` runs them."""
