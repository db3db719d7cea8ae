"""Published measurements beside what the simulator's formulas make of them."""
