"""Every strategy's batches, token for token, as they were when they were last meant to change.

`python -m tests.contract.test_same_batches` writes what they are now into `batches.json`.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.testing import factories as make
from gfcr.types import Group, Rollout, RolloutBatch

FILE = Path(__file__).with_name("batches.json")
RECORDED: dict[str, dict[str, str]] = json.loads(FILE.read_text())
RATES = {"easy, mixed and hard prompts": (0.0, 0.25, 0.5, 0.75, 1.0), "mixed prompts": (0.4, 0.6)}
UPDATES = 3
PROMPTS = 10
"""They come back: what is replayed and what is skipped is recorded too."""


def digests(name: str, *, rates: tuple[float, ...]) -> str:
    """One per update: trained samples, all groups and what was cut, with the tokens' bins."""
    task = make.CoinTask(rates=rates, num_train=PROMPTS)
    run = make.pipeline(strategies.load(name), task=task, prompts=4, seed=5)
    found: list[str] = []
    for _ in range(UPDATES):
        run.sync((), version=run.step)
        text = json.dumps([told(run.next_batch()), run.tokens()])
        found.append(hashlib.sha256(text.encode()).hexdigest()[:12])
    return " ".join(found)


def told(batch: RolloutBatch) -> dict[str, object]:
    return {
        "samples": [[*rollout(s.rollout), digits(s.advantage_T)] for s in batch.samples],
        "groups": [group(g) for g in batch.groups],
        "aborted": [rollout(r) for r in batch.aborted],
    }


def group(of: Group) -> list[object]:
    signals = [[s.reward, s.weight, s.rejected] for s in of.signals]
    return [of.prompt.id, of.rejected, signals, [rollout(r) for r in of.rollouts]]


def rollout(of: Rollout) -> list[object]:
    columns = [of.tokens_T.tolist(), of.versions_T.tolist(), of.mask_T.tolist()]
    return [*columns, digits(of.logprobs_T), of.reward, of.finish.value, of.step, of.fork_at]


def digits(values: np.ndarray) -> list[str]:
    """Enough to tell, few enough not to depend on how a sum was ordered."""
    return [f"{v:.4g}" for v in values]


def test_every_strategy_is_recorded_and_no_other() -> None:
    assert RECORDED.keys() == {*strategies.names()}, "python -m tests.contract.test_same_batches"


@pytest.mark.parametrize("name", RECORDED)
def test_batches_are_as_they_were(name: str) -> None:
    for rates, of in RATES.items():
        assert digests(name, rates=of) == RECORDED[name][rates], rates


def main() -> None:
    """Records what the batches are now."""
    names = strategies.names()
    found = {n: {r: digests(n, rates=of) for r, of in RATES.items()} for n in names}
    FILE.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
