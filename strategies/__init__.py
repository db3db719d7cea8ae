"""Published strategies: one file names one combination of parts. Installed as `gfcr_strategies`."""
