"""What a run may not have changed since it was left: its prompts, its model, its user's code."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from gfcr.certificate.certify import Standing, circumstances, standing
from gfcr.errors import CheckpointError
from gfcr.experiment.provenance import edited, went_on
from gfcr.experiment.resolved import Resolved
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
    left = checkpoint.complete(records.path / "checkpoints")  # a rehearsal renames nothing
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
        # What was given last counts: `--accept data` may have given other data before.
        if (before := held.tags.get(f"{DIGEST}{name}", "").split(SEVERAL)[-1])
        and before != card.tags.get(f"{DIGEST}{name}", before)
    ]
    return [*changed, *edited(held, now=card.tags)]


def check_same(
    resolved: Resolved,
    *,
    given: Mapping[str, str],
    held: RunCard | None,
    accepted: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> None:
    """Refuses to go on with other prompts, another model or edited code, unless that is accepted.

    Args:
        resolved: the experiment as of now.
        given: digests of its prompts and model.
        held: the card from when the run was left; None for a run that starts from nothing.
        accepted: whether to go on all the same.
        say: called with what has changed.

    Raises:
        CheckpointError: something has changed; names it.
    """
    card = resolved.card()
    changed = others(replace(card, tags={**card.tags, **given}), held=held)
    if not changed:
        return
    say(f"changed since the run was left: {', '.join(changed)}")
    if not accepted:
        raise CheckpointError(
            f"{resolved.folder}: it was left with other {' and '.join(changed)}. Put them back, "
            "give --accept data to go on all the same, which its record will say, or --fresh to "
            "start over."
        )


def card_and_standing(
    resolved: Resolved, *, given: Mapping[str, str], held: RunCard | None
) -> tuple[RunCard, Standing]:
    """Returns the run's card, and how its speculation stands under all it was made with."""
    card = resolved.card()

    def told(stands: Standing) -> RunCard:
        return went_on(replace(card, tags={**card.tags, **stands.tags, **given}), held=held)

    stands = standing(resolved.spec)
    if (under := circumstances(told(stands).tags)) != stands.under:  # it was begun under others
        stands = standing(resolved.spec, under=under)
    return told(stands), stands
