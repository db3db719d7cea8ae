"""The rules of each stage: every module here has a table of them, `RULES`."""
