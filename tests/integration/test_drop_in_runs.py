"""What goes on around the updates of a script with a strategy, on the fake engine. About 15 s."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig

from gfcr.drop_in import GRPOTrainer
from gfcr.errors import FolderInUse
from gfcr.tracking.rollouts import read_rollouts
from tests.integration.tiny_model import tiny_chain_sum
from tests.integration.trl_stock import arguments, train_stock

ROWS = {"prompt": ["1+2=", "3+4=", "5+6=", "7+8="]}


def brief(completions: list[str], **_: Any) -> list[float]:
    return [-float(len(text)) for text in completions]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_chain_sum(tmp_path_factory.mktemp("model"))


def make(model: str, folder: Path, *, reward: Any = brief, rows: Any = None, **changes: Any) -> Any:
    given = arguments(folder, rollouts=16, size=4, max_completion_length=12, logging_steps=1)
    return GRPOTrainer(
        model,
        reward_funcs=reward,
        args=GRPOConfig(**(given | changes)),
        train_dataset=Dataset.from_dict(ROWS),
        eval_dataset=rows,
        engine={"name": "fake"},
    )


def logged(trainer: Any, key: str) -> list[Any]:
    return [entry[key] for entry in trainer.state.log_history if key in entry]


@pytest.mark.parametrize("passes", [1, 2])
def test_evaluation_between_updates_changes_none_of_them(
    model: str, tmp_path: Path, passes: int
) -> None:
    shape = {"gradient_accumulation_steps": passes, "per_device_train_batch_size": 16 // passes}
    plain = train_stock(make(model, tmp_path / "plain", max_steps=3, **shape))
    evaluated = make(
        model,
        tmp_path / "evaluated",
        rows={"one": Dataset.from_dict(ROWS), "two": Dataset.from_dict({"prompt": ["9-1="] * 8})},
        max_steps=3,
        eval_strategy="steps",
        eval_steps=1,
        eval_on_start=True,
        num_generations_eval=2,
        **shape,
    )
    change = train_stock(evaluated)
    assert torch.equal(change, plain)
    rewards = logged(evaluated, "eval_reward")  # TRL's name, whatever the split
    assert len(rewards) == 8 and all(-12 <= reward <= 0 for reward in rewards)
    assert len(logged(evaluated, "eval_one_loss")) == len(logged(evaluated, "eval_two_loss")) == 4
    assert len(logged(evaluated, "loss")) == 3
    assert {"eval_one_loss", "eval_two_loss"} <= evaluated.evaluate().keys()


def test_what_reward_functions_log_is_training_s_in_training(model: str, tmp_path: Path) -> None:
    def reward(completions: list[str], log_metric: Any, log_extra: Any, **_: Any) -> list[float]:
        log_extra("length", [len(c) for c in completions])
        log_metric("asked_for", float(len(completions)))
        return brief(completions)

    trainer = make(
        model,
        tmp_path,
        reward=reward,
        rows=Dataset.from_dict(ROWS),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
    )
    trainer.train()
    assert logged(trainer, "asked_for") == [1.0, 1.0]  # one completion at a time
    assert logged(trainer, "eval_asked_for") == [8.0, 8.0]
    assert not trainer._pending_metrics and not trainer._pending_extra_logs
    rewards = logged(trainer, "rewards/reward/mean")
    assert rewards == pytest.approx(logged(trainer, "reward/all"))


def test_the_best_checkpoint_stays_and_comes_back(model: str, tmp_path: Path) -> None:
    """TRL's own rotation, which knows the best; the first is made the best."""
    scores = iter([1.0, 0.0, 0.0])

    def reward(completions: list[str], trainer_state: Any, **_: Any) -> list[float]:
        evaluating = len(completions) > 1
        return [next(scores)] * len(completions) if evaluating else brief(completions)

    trainer = make(
        model,
        tmp_path,
        reward=reward,
        rows=Dataset.from_dict({"prompt": ["1+2="]}),
        max_steps=3,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="reward",
        greater_is_better=True,
        num_generations_eval=4,
        per_device_eval_batch_size=4,
    )
    trainer.train()
    assert Path(trainer.state.best_model_checkpoint).name == "checkpoint-1"
    assert {p.name for p in tmp_path.glob("checkpoint-*")} >= {"checkpoint-1"}


def test_two_trainers_on_one_folder_are_refused(model: str, tmp_path: Path) -> None:
    second = make(model, tmp_path)
    found: list[Any] = []

    def reward(completions: list[str], **_: Any) -> list[float]:
        if not found:
            with pytest.raises(FolderInUse) as error:
                second.train()
            found.append(error.value)
        return brief(completions)

    first = make(model, tmp_path, reward=reward)
    first.train()
    assert first.state.global_step == 2 and second.state.global_step == 0
    assert str(tmp_path) in str(found[0])
    second.train()  # free again
    assert second.state.global_step == 2


def test_rollouts_of_an_earlier_run_do_not_mix_with_a_new_one_s(model: str, tmp_path: Path) -> None:
    make(model, tmp_path, max_steps=3, save_strategy="steps", save_steps=1).train()
    earlier = texts(tmp_path / "rollouts")
    make(model, tmp_path, max_steps=2, seed=5).train()
    assert len(list((tmp_path / "rollouts").iterdir())) == 2
    assert texts(tmp_path / "rollouts.before-1") == earlier
    # Back to update 1 of it, which is again done under the seed of then.
    make(model, tmp_path, max_steps=2, seed=5).train(
        resume_from_checkpoint=str(tmp_path / "checkpoint-1")
    )
    names = sorted(p.name for p in (tmp_path / "rollouts").iterdir())
    assert names == ["update-000000.parquet", "update-000001.parquet"]
    assert [p.name for p in (tmp_path / "rollouts.before-2").iterdir()] == names[1:]


def texts(folder: Path) -> list[str]:
    return [r.text for group in read_rollouts(folder) for r in group.rollouts]


@pytest.mark.parametrize(
    "reward",
    [
        lambda completions, **_: [None] * len(completions),
        lambda completions, **_: [0.0, 1.0],
        lambda completions, **_: [],
        lambda completions, **_: [float("inf")],
        lambda completions, **_: [float("nan")],
        lambda completions, **_: ["a"],
        lambda **_: 1 / 0,
    ],
    ids=["none", "two", "nothing", "infinite", "nan", "text", "error"],
)
def test_what_a_reward_function_gets_wrong_is_no_reward(
    model: str, tmp_path: Path, reward: Callable[..., Any]
) -> None:
    """A function that fails now and then leaves those rollouts out; the others are trained on."""
    calls = iter(range(10**6))

    def sometimes(**given: Any) -> Any:
        return reward(**given) if next(calls) % 5 == 0 else brief(**given)

    trainer = make(model, tmp_path, reward=sometimes, max_steps=1)
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    rewards = [r.reward for g in read_rollouts(tmp_path / "rollouts") for r in g.rollouts]
    assert rewards.count(None) == 4 and len(rewards) == 16
    assert all(r is None or r == round(r) for r in rewards)
    after = trainer.model.state_dict()
    assert all(torch.isfinite(t).all() for t in after.values())
    assert any(not torch.equal(before[n], after[n]) for n in before)
