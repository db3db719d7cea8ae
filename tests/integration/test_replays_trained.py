"""What is replayed reaches TRL's loss as it was sampled: tokens, masks, log-probs and versions.

The buffer of TRL's own trainer passed its tests while what it replayed was never trained.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trl import GRPOTrainer

from gfcr.train.trl import Trl
from gfcr.types import Rollout
from tests.integration import demo_floor
from tests.integration.demo_floor import Floor, Source
from tests.integration.test_strategies_fire import pipeline
from tests.sample import sample

pytestmark = pytest.mark.vllm

REPLAYS = ("repo", "rlep", "ar3po", "exgrpo", "group_replay")


@pytest.fixture(scope="module")
def floor() -> Iterator[Floor]:
    made = demo_floor.start()
    yield made
    made.engine.close()


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The inputs of each forward pass that TRL's loss was asked about."""
    found: list[dict[str, Any]] = []
    ours = GRPOTrainer._compute_loss

    def watched(self: Any, model: Any, inputs: dict[str, Any]) -> Any:
        found.append(inputs)
        return ours(self, model, inputs)

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", watched)
    return found


def rows(seen: list[dict[str, Any]]) -> Iterator[tuple[list[int], list[int], np.ndarray, float]]:
    """Of each row: its tokens, their loss mask, log-probs, and the largest advantage."""
    for inputs in seen:
        keys = ("completion_mask", "completion_ids", "tool_mask", "sampling_per_token_logps")
        columns = [inputs[key].cpu() for key in (*keys, "advantages")]
        for mask_T, ids_T, loss_T, logps_T, advantages_T in zip(*columns, strict=True):
            num = int(mask_T.sum())
            own = (ids_T[:num].tolist(), loss_T[:num].tolist(), logps_T[:num].numpy())
            yield (*own, float(advantages_T.abs().max()))


def trained_as(rollout: Rollout, seen: list[dict[str, Any]]) -> bool:
    """Whether a row is the rollout, with an advantage."""
    return any(
        ids == rollout.tokens_T.tolist()
        and mask == rollout.mask_T.astype(int).tolist()
        and np.allclose(logps[rollout.mask_T], rollout.logprobs_T[rollout.mask_T], atol=1e-6)
        and advantage > 0
        for ids, mask, logps, advantage in rows(seen)
    )


@pytest.mark.parametrize("name", sample(REPLAYS, always=["repo", "group_replay"]))
def test_what_is_replayed_is_trained_as_it_was_sampled(
    name: str, floor: Floor, seen: list[dict[str, Any]], tmp_path: Path
) -> None:
    run = pipeline(name, floor)
    source = Source(pipeline=run)
    Trl(max_steps=2, micro_batches=2, learning_rate=1e-3).train(floor.job(source, folder=tmp_path))
    run.close()
    sampled = {r.spans: r for g in source.batches[0].groups for r in g.rollouts}
    again = [s for s in source.batches[1].samples if s.rollout.origin == "replay"]
    live = [s.rollout for s in again if s.advantage_T.any()]
    assert live, "nothing that is replayed teaches"
    for rollout in live:
        before = sampled[rollout.spans]
        for column in ("tokens_T", "mask_T", "logprobs_T", "versions_T"):
            np.testing.assert_array_equal(getattr(rollout, column), getattr(before, column))
        assert (rollout.versions_T == 0).all() and trained_as(rollout, seen)
    metrics = source.metrics[1]
    assert source.batches[1].metrics["off_policy/staleness"] > 0
    assert 0 < metrics["effective_share"] < 1 and metrics["off_policy_ratio"] != 1
