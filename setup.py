"""Packages found, and `strategies/` installed as `gfcr_strategies`; pyproject.toml has the rest."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["gfcr", "gfcr.*"]), "gfcr_strategies"],
    package_dir={"gfcr_strategies": "strategies"},
)
