"""What users give: plain values, the ranges of fields, names and YAML."""
