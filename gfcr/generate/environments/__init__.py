"""What an episode is played in: one file per kind of environment."""
