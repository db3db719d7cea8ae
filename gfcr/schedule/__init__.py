"""Schedules of generation and training: in turn, with a lag, or both all the time."""
