"""When rollouts are made and when they are learned from: in turn, lagged, or all the time."""
