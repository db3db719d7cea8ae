"""What a run may not have changed since it was left: its prompts, its model, its user's code."""

from pathlib import Path
from typing import Final

from gfcr.errors import CheckpointError
from gfcr.experiment.provenance import edited
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.names import DIGEST, SEVERAL
from gfcr.train import checkpoint

_GIVEN: Final = {
    "training": "the prompts to train on or their answers",
    "heldout": "the held-out prompts or their answers",
    "model": "the model",
}


def card_to_resume(records: RunFolder) -> RunCard | None:
    """Returns the card of a run that was left with a checkpoint to resume; else None."""
    left = checkpoint.newest(records.path / "checkpoints") is not None
    return records.card() if left and records.exists() else None


def others(card: RunCard, *, held: RunCard | None) -> list[str]:
    """Returns what is not as it was when a run was left, in words.

    Args:
        card: the card as of now.
        held: the card from when the run was left; None for a run that starts from nothing.
    """
    if held is None:
        return []
    changed = [
        words
        for name, words in _GIVEN.items()
        if (before := held.tags.get(f"{DIGEST}{name}", "").split(SEVERAL)[-1])
        and before != card.tags.get(f"{DIGEST}{name}", before)
    ]
    return [*changed, *edited(held, now=card.tags)]


def refused(changed: list[str], *, folder: Path) -> CheckpointError:
    """Returns the error of a run that would go on with something else."""
    return CheckpointError(
        f"{folder}: it was left with other {' and '.join(changed)}. Put them back, give "
        "--accept data to go on all the same, which its record will say, or --fresh to start over."
    )
