"""Any experiment on the fake engine, in a moment."""

import itertools
import json
from pathlib import Path

CHEAP = [
    *("model=none", "engine=fake", "engine.mean_length=3", "engine.alphabet=01+="),
    *("trainer=dry", "trainer.max_steps=1", "evaluation.prompts=4", "evaluation.every=0"),
    *("prompts=2", "strategy.group_size=4"),
    *("task=dataset", "task.path=asked.jsonl", "task.heldout_fraction=0.5"),
    "task.verifier=numeric",
]
"""Overrides by which a command runs in a moment. They stand before other overrides."""


def ask(folder: Path) -> None:
    """Writes the questions that `CHEAP` names, which the fake engine answers right now and then."""
    sums = ("".join(bits) for bits in itertools.product("01", repeat=6))
    asked = [json.dumps({"prompt": f"{number}=", "answer": "1"}) for number in sums]
    (folder / "asked.jsonl").write_text("\n".join(asked))
