"""What an audit found of an engine and a drafter, and what a run is told of it."""
