"""Entries of the committed leaderboard: checked, written, and computed again."""
