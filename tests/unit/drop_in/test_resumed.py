"""What a run that is resumed finds of the one before."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gfcr.drop_in.resumed import Identity, clear
from gfcr.errors import CheckpointError
from gfcr.testing import factories as make
from gfcr.tracking.parquet import every_file, write_corrections
from gfcr.tracking.rollouts import write_rollouts
from gfcr.train import checkpoint
from gfcr.types import Cost, RolloutBatch
from tests.cases import over


@over("of", ["attempt 1 of run 5", None])
def test_a_checkpoint_of_gfcr_run_is_refused_in_words(of: Any, tmp_path: Path) -> None:
    state = {"pipeline": {"step": 3}, **({"of": of} if of else {})}
    checkpoint.commit(tmp_path / "checkpoint-3", state=state, keep=1)
    own, said = Identity(of={"seed": 1}, given={}), re.escape(str(tmp_path / "checkpoint-3"))
    for accept in (False, True):
        with pytest.raises(
            CheckpointError, match=f"{said} is a checkpoint of `gfcr run`.*give one"
        ):
            own.state(tmp_path / "checkpoint-3", accept_data=accept)


def test_rollouts_of_later_updates_go_aside_with_what_corrections_made_of_them(
    tmp_path: Path,
) -> None:
    folder, made = tmp_path / "rollouts", {"g/0": (np.ones(1, np.float32), np.ones(1, np.bool_))}
    held = {"samples": (), "groups": (make.group([1.0]),), "aborted": (), "metrics": {}}
    for step in range(3):
        write_rollouts(folder, batch=RolloutBatch(step=step, version=step, cost=Cost(), **held))
        write_corrections(folder, made=made, update=step)
    clear(folder, batches=1)
    aside = tmp_path / "rollouts.before-1"
    for place, updates in ((folder, [0]), (aside, [1, 2])):
        names = [f"update-00000{update}.parquet" for update in updates]
        wanted = [place / name for name in names]
        assert every_file(place) == [*wanted, *(place / "corrections" / name for name in names)]
