"""Published combinations: one file, one function returning a Strategy, named like the file."""
