"""Demonstrations that the embedded demo models are trained on."""
