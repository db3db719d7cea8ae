"""The small chat model and the small GSM8K of experiments/gsm8k, made by its script."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[1]
GSM8K = ROOT / "experiments" / "gsm8k"


def make(folder: Path) -> None:
    """Leaves `folder/model` and `folder/data`; takes ten seconds."""
    spec = importlib.util.spec_from_file_location("small", GSM8K / "small.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    script.make(folder)
