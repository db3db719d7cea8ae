"""A few rollouts of each arm, shortened, for the report."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, final

from gfcr.leaderboard.board import Leaderboard
from gfcr.shown.text import plain
from gfcr.tracking.looked_at import LookedAt, picked, rewards_of
from gfcr.tracking.mlflow_store import newest_rollouts

NONE: Final = (
    "The store holds no rollouts of these runs (tracking.artifacts: results leaves them in the run "
    "folders; rollouts are there with all). `gfcr rollouts RUN` shows those of a folder."
)
_MOST_TOKENS: Final = 2000
"""The most tokens of a completion that are shown."""
_MOST_CHARACTERS: Final = 6000
"""The most characters of a prompt, or of a completion without recorded token texts."""


@final
@dataclass(frozen=True, kw_only=True)
class ShownRun:
    """One run of an arm, with the rollouts to choose from."""

    seed: int
    rollouts: Collection[LookedAt]
    """The rollouts of one update."""

    def data(self) -> dict[str, Any]:
        """Returns its best, worst and rejected rollout as JSON values."""
        shown = [
            {"pick": pick, **_data(rollout)}
            for pick, rollouts in picked(self.rollouts).items()
            for rollout in rollouts
        ]
        return {"seed": self.seed, "update": max(r.update for r in self.rollouts), "shown": shown}


def of_store(board: Leaderboard, *, uri: str) -> dict[str, ShownRun]:
    """Reads the newest update of each arm's first run; arms without rollouts are left out.

    Args:
        board: the leaderboard made from the store.
        uri: the URI of the store.

    Raises:
        StoreError: the store cannot be read.
    """
    found = {
        row.arm: ShownRun(seed=row.seeds[0], rollouts=newest_rollouts(uri, run_id=row.run_ids[0]))
        for row in board.rows
        if row.run_ids
    }
    return {arm: run for arm, run in found.items() if any(picked(run.rollouts).values())}


def _data(seen: LookedAt) -> dict[str, Any]:
    rollout, signal, advantage_T = seen.rollout, seen.signal, seen.advantage_T
    # Without the text of each token all of the completion is one piece, of the mean advantage.
    whole = not seen.pieces
    pieces = [rollout.text[:_MOST_CHARACTERS]] if whole else list(seen.pieces[:_MOST_TOKENS])
    mask = rollout.mask_T[: len(pieces)]
    given = [] if whole else [i for i, sampled in enumerate(mask) if not sampled]
    sampled = None if advantage_T is None else advantage_T[rollout.mask_T]
    mean = None if seen.mean_advantage is None else _rounded(seen.mean_advantage)
    alike = whole or sampled is None or bool((sampled == sampled[:1]).all())
    by_token = None if alike or advantage_T is None else advantage_T[: len(pieces)]
    return plain(
        {
            "prompt": rollout.prompt.text[:_MOST_CHARACTERS],
            "prompt_id": rollout.prompt.id,
            "pieces": pieces,
            "given": given,
            "advantage": mean,
            "advantages": mean if by_token is None else [_rounded(float(a)) for a in by_token],
            "reward": rollout.reward,
            "shaped": None if signal is None or signal.reward == rollout.reward else signal.reward,
            "rewards": {name: _rounded(value) for name, value in rewards_of(seen.rollout).items()},
            "fate": seen.fate,
            "finish": f"{rollout.finish.value} {rollout.detail}".strip(),
            "error": rollout.error,
            "length": len(rollout),
            "cut": 0 if whole else max(len(rollout) - len(pieces), 0),
        }
    )


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")
