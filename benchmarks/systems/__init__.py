"""Simulated systems: rollouts on serving devices, and pipelines that share a machine."""
