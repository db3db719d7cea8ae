"""A small study whose trials run in the process that sweeps it, tracked in MLflow."""

from pathlib import Path

import yaml

from tests.launchers import HERE, VALUES

ARMS = ["dr_grpo", "grpo"]


def study_file(folder: Path, *, uri: str) -> Path:
    path = folder / "study.yaml"
    values = {**VALUES, "study": "nested", "tracking": {"name": "mlflow", "uri": uri}}
    values |= {"folder": str(folder / "runs"), "launcher": HERE, "seeds": [0, 1]}
    arms = {arm: {"strategy": {"name": arm, "group_size": 2}} for arm in ARMS}
    path.write_text(yaml.safe_dump({**values, "baseline": "grpo", "arms": arms}))
    return path
