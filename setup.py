"""Packages found; two folders of the repository are installed under names of their own.

`strategies/` as `gfcr_strategies`; the study of `gfcr demo` as `gfcr_quickstart`, its YAML alone.
pyproject.toml has the rest.
"""

from setuptools import find_packages, setup

MAPPED = {"gfcr_strategies": "strategies", "gfcr_quickstart": "experiments/quickstart"}
setup(packages=[*find_packages(include=["gfcr", "gfcr.*"]), *MAPPED], package_dir=MAPPED)
