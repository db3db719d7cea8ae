"""One pathology a file: the figure that shows it, the limit, and the levers."""
