"""What a script with a strategy logs under TRL's names is what stock TRL logs, on its rollouts."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import Dataset
from trl import GRPOConfig
from trl import GRPOTrainer as Stock

from gfcr.drop_in import GRPOTrainer
from gfcr.tracking.rollouts import read_update
from gfcr.types import Rollout
from tests.integration.tiny_model import tiny_chain_sum
from tests.integration.trl_stock import arguments, train_stock

PROMPTS = ["1+2=", "3+4=", "15+6=", "7+8="]
ROWS = {"prompt": PROMPTS, "limit": [3, 9, 5, 7]}
SHAPE = {
    "gradient_accumulation_steps": 1,  # one micro-batch: however it is cut, it is the same
    "per_device_train_batch_size": 16,
    "max_completion_length": 14,
    "logging_steps": 1,
    "beta": 0.1,
    "log_completions": True,
    "num_completions_to_print": 2,
}
OWN_CLOCK = {"step_time", "epoch"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_chain_sum(tmp_path_factory.mktemp("model"))


def spread(completions: list[str], limit: list[int], log_extra: Any, **_: Any) -> Any:
    """By text and column; some completions have no score of this function's."""
    log_extra("characters", [len(text) for text in completions])
    pairs = zip(completions, limit, strict=True)
    return [None if text.endswith("7") else float(len(text) > most) for text, most in pairs]


def ends(completion_ids: list[list[int]], log_metric: Any, **_: Any) -> list[float]:
    log_metric("tokens_seen", sum(map(len, completion_ids)) / len(completion_ids))
    return [(ids[-1] == 1) - len(set(ids)) / 9 for ids in completion_ids]


def config(folder: Path, **changes: Any) -> GRPOConfig:
    return GRPOConfig(**arguments(folder, rollouts=16, size=4, **(SHAPE | changes)))


def ours(model: str, folder: Path, *, strategy: Any = "grpo", **changes: Any) -> Any:
    trainer: Any = GRPOTrainer(
        model,
        reward_funcs=[spread, ends],
        args=config(folder, **changes),
        train_dataset=Dataset.from_dict(ROWS),
        strategy=strategy,
        engine={"name": "fake"},
    )
    train_stock(trainer)
    return trainer


def stock(model: str, folder: Path, *, updates: list[list[Rollout]]) -> Any:
    left = iter(updates)

    def replayed(prompts: list[str], trainer: Any) -> dict[str, Any]:
        flat = next(left)
        return {
            "prompt_ids": [list(r.prompt.tokens) for r in flat],
            "completion_ids": [r.tokens_T.tolist() for r in flat],
            "logprobs": [r.logprobs_T.tolist() for r in flat],
        }

    trainer = Stock(
        model=model,
        reward_funcs=[spread, ends],
        args=config(folder),
        train_dataset=Dataset.from_dict(ROWS),
        rollout_func=replayed,
    )
    train_stock(trainer)
    return trainer


def stored(folder: Path) -> list[list[Rollout]]:
    """The rollouts of each update, by row."""
    made: list[list[Rollout]] = []
    for path in sorted((folder / "rollouts").glob("update-*.parquet")):
        groups = sorted(read_update(path).groups, key=lambda g: int(g.prompt.id))
        made.append([r for group in groups for r in group.rollouts])
    return made


def updates_of(trainer: Any) -> list[dict[str, Any]]:
    return [entry for entry in trainer.state.log_history if "loss" in entry]


def test_every_name_that_stock_trl_logs_is_logged_with_its_value(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = updates_of(ours(model, tmp_path / "ours"))
    printed = capsys.readouterr().out
    theirs = updates_of(stock(model, tmp_path / "stock", updates=stored(tmp_path / "ours")))
    assert len(own) == len(theirs) == 2
    for mine, his in zip(own, theirs, strict=True):
        assert {"rewards/spread/std", "frac_reward_zero_std", "num_tokens", "kl"} <= his.keys()
        # By one completion at a time, and by the batch: the same mean.
        compared = {k: v for k, v in his.items() if k not in OWN_CLOCK}
        held = {k: mine.get(k) for k in compared}
        assert held == pytest.approx(compared, rel=2e-3, abs=2e-4)
    assert "Step 1" in printed and "characters" in printed  # the table, as stock prints it
    tables = [
        pd.read_parquet(tmp_path / side / "completions" / "completions_00002.parquet")
        for side in ("ours", "stock")
    ]
    mine, his = (t.sort_values(["prompt", "completion", "advantage"]) for t in tables)
    assert list(mine.columns) == list(his.columns)
    pd.testing.assert_frame_equal(
        mine.reset_index(drop=True), his.reset_index(drop=True), atol=1e-3, check_dtype=False
    )


def test_rejected_groups_count_in_metrics_and_stay_out_of_the_table(
    model: str, tmp_path: Path
) -> None:
    rejecting = {"zero_variance": {"name": "zero_variance"}}
    strategy = {"name": "pods", "keep": 2, "filters": rejecting}
    trainer = ours(model, tmp_path, strategy=strategy, max_steps=1, beta=0.0)
    (entry,) = updates_of(trainer)
    (made,) = stored(tmp_path)
    assert entry["completions/mean_length"] == pytest.approx(sum(map(len, made)) / len(made))
    assert entry["num_tokens"] == sum(len(r) + len(r.prompt.tokens) for r in made)
    table = pd.read_parquet(tmp_path / "completions" / "completions_00001.parquet")
    assert len(table) == entry["rollouts/trained"] < len(made)
