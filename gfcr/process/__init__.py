"""Child processes of gfcr: what they are started with, how they are heard and how they end."""
