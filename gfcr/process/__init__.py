"""Child processes of gfcr: their environment, their output and their end."""
