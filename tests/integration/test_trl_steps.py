"""Several optimizer steps of a batch are stock TRL's (about 20 s alone, 35 s whole)."""

from dataclasses import replace
from typing import Any

import pytest
import torch

from gfcr import seeds
from gfcr import strategy as strategies
from gfcr.train.trl import Trl
from gfcr.types import Loss
from tests.integration.test_trl_exact import seam
from tests.integration.trl_script import (
    Scripted,
    change,
    groups,
    grpo_advantages,
    plain_sgd,
    relative,
    rloo_advantages,
    run,
    samples_of,
    tiny_policy,
)
from tests.integration.trl_stock import stock_grpo, stock_rloo, train_stock
from tests.sample import sample

TOLERANCE = 2e-6
RATE = 0.05


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_policy(tmp_path_factory.mktemp("model"))


def scripted(**changes):
    return Scripted(make=lambda n: samples_of(groups(n)), **changes)


@pytest.fixture
def dealt(monkeypatch):
    """TRL deals rows into mini-batches with the global generator; here as the seam does."""
    batch = iter(range(100))

    def shuffled(held: dict[str, Any]) -> dict[str, Any]:
        rows = len(held["prompt_ids"])
        order = torch.tensor(seeds.rng(0, "mini_batches", next(batch)).permutation(rows))
        return {k: v[order] if torch.is_tensor(v) and v.ndim else v for k, v in held.items()}

    for name in ("grpo", "rloo"):
        monkeypatch.setattr(f"trl.trainer.{name}_trainer.shuffle_sequence_dict", shuffled)


@pytest.fixture
def doubled(monkeypatch):
    """Weights in double precision: several large steps would magnify the rounding of the first."""
    made = Trl._trainer

    def double(self: Trl, job: Any) -> Any:
        trainer = made(self, job)
        trainer.model.double()
        return trainer

    monkeypatch.setattr(Trl, "_trainer", double)


CASES = {
    "iterations": ({"num_iterations": 2, "max_steps": 4}, {"iterations": 2}),
    "mini-batches": (
        {"per_device_train_batch_size": 4, "steps_per_generation": 4, "max_steps": 4},
        {"mini_batches": 2},
    ),
    "both": (
        {
            "num_iterations": 2,
            "per_device_train_batch_size": 4,
            "steps_per_generation": 4,
            "max_steps": 8,
        },
        {"iterations": 2, "mini_batches": 2},
    ),
}


@pytest.mark.parametrize(
    "name",
    sample(
        [f"{case}, {aggregation}" for case in CASES for aggregation in ("dapo", "grpo")],
        always=["iterations, dapo", "both, grpo"],
    ),
)
@pytest.mark.usefixtures("dealt", "doubled")
def test_steps_are_trl_s_own_and_clip(model, tmp_path, name):
    case, aggregation = name.split(", ")
    asked, own = CASES[case]
    trainer = stock_grpo(
        model,
        groups,
        folder=tmp_path / "a",
        learning_rate=RATE,
        loss_type=aggregation,
        logging_steps=asked["max_steps"],
        **asked,
    )
    trainer.model.double()
    stock = train_stock(trainer)
    source = scripted()
    ours = plain_sgd(learning_rate=RATE, **own)
    run(ours, source, model=model, folder=tmp_path / "b", loss=Loss(aggregation=aggregation))
    # Eight large steps magnify rounding, with some weights more than with others.
    assert relative(change(source), stock) < 5 * TOLERANCE
    clipped = [m["clip_ratio"] for m in source.metrics]
    assert min(clipped) > 0.02, "both updates clip"
    (logged,) = [line for line in trainer.state.log_history if "clip_ratio/region_mean" in line]
    assert sum(clipped) / 2 == pytest.approx(logged["clip_ratio/region_mean"], abs=0.02)


LOSSES = {
    **{name: strategies.load(name).loss for name in ("gspo", "cispo", "sapo", "vespo")},
    "luspo": Loss(level="sequence", aggregation="luspo", clip_low=0.03, clip_high=0.04),
    "cispo that cuts": Loss(form="cispo", clip_high=1.1),
    "sapo of rollouts": Loss(form="sapo", level="sequence", aggregation="grpo"),
    "delta": Loss(delta=1.21),
}


@pytest.mark.parametrize("name", sample(LOSSES, always=["gspo", "cispo that cuts"]))
@pytest.mark.usefixtures("dealt", "doubled")
def test_every_loss_is_trl_s_own_and_another_than_the_clipped_one(model, tmp_path, name):
    (asked, own), loss = CASES["both"], LOSSES[name]
    plain = Loss(aggregation=loss.aggregation if loss.aggregation != "luspo" else "grpo")
    # A sum over a rollout is as long a step as its tokens are many.
    rate = RATE / 20 if loss.aggregation == "luspo" else RATE
    trainer = stock_grpo(
        model, groups, folder=tmp_path / "a", learning_rate=rate, **loss.of_trl(), **asked
    )
    trainer.model.double()
    stock = train_stock(trainer)
    found = {}
    for kind, each in (("own", loss), ("plain", plain)):
        source = scripted()
        ours = plain_sgd(learning_rate=rate, **own)
        run(ours, source, model=model, folder=tmp_path / kind, loss=each)
        found[kind] = change(source)
    # A ratio of a whole rollout, vespo's, magnifies rounding as many times as it has tokens.
    assert relative(found["own"], stock) < (5 if name == "vespo" else 1) * TOLERANCE
    assert relative(found["plain"], stock) > 0.1


@pytest.mark.whole
@pytest.mark.usefixtures("dealt", "doubled")
def test_rloo_s_steps_are_trl_s_own(model, tmp_path):
    asked, own = CASES["iterations"]
    rate = {"learning_rate": RATE / 5}  # a sequence's ratio is the product of its tokens'
    trainer = stock_rloo(model, groups, folder=tmp_path / "a", **rate, **asked)
    trainer.model.double()
    ours = seam(
        model,
        tmp_path / "b",
        formula=rloo_advantages,
        loss=Loss(estimator="rloo"),
        **rate,
        **own,
    )
    assert relative(ours, train_stock(trainer)) < TOLERANCE


def test_without_the_policy_before_the_batch_it_would_be_another_update(model, tmp_path):
    """The same batch twice, as two updates, clips nothing."""
    twice = Scripted(make=lambda n: samples_of(groups(n // 2)))
    run(plain_sgd(learning_rate=RATE, max_steps=4), twice, model=model, folder=tmp_path / "a")
    assert all(m["clip_ratio"] == 0 for m in twice.metrics)
    ours = seam(model, tmp_path / "b", formula=grpo_advantages, learning_rate=RATE, iterations=2)
    assert relative(change(twice), ours) > 0.1


@pytest.mark.whole
@pytest.mark.parametrize(
    "loss", [Loss(estimator="sft"), Loss(off_policy="behaviour")], ids=["sft", "behaviour"]
)
def test_other_losses_take_several_steps(model, tmp_path, loss):
    ones = [
        [replace(s, advantage_T=s.rollout.mask_T.astype("float32")) for s in samples_of(groups(n))]
        for n in range(2)
    ]
    source = Scripted(make=lambda n: ones[n])
    trainer = plain_sgd(learning_rate=0.01, iterations=2, mini_batches=3)
    run(trainer, source, model=model, folder=tmp_path, loss=loss)
    assert [line for line in source.diary if "updated" in line] == ["updated 1", "updated 2"]
    assert change(source).norm() > 0.01


TRAINER = Trl(
    max_steps=4,
    learning_rate=3e-3,
    schedule="linear",
    warmup_steps=1,
    save_every=1,
    keep_checkpoints=9,
    iterations=2,
    mini_batches=2,
)


def test_one_batch_is_one_update_and_a_resumed_run_is_bit_equal(model, tmp_path):
    whole, first, second = scripted(), scripted(), scripted()
    run(TRAINER, whole, model=model, folder=tmp_path / "whole")
    told = [line for line in whole.diary if line != "state"]
    assert told[-4:] == ["sync 3", "batch 3", "updated 4", "sync 4"] and len(told) == 13
    names = sorted(p.name for p in (tmp_path / "whole").glob("*-*"))
    assert names == [f"checkpoint-{n}" for n in (1, 2, 3, 4)]
    assert [m["learning_rate"] for m in whole.metrics][-1] < whole.metrics[0]["learning_rate"]
    cut = tmp_path / "cut"
    run(TRAINER, first, model=model, folder=cut, should_stop=lambda: len(first.metrics) == 2)
    resumed = run(TRAINER, second, model=model, folder=cut)
    assert (resumed.updates, resumed.resumed_from) == (4, 2)
    assert second.diary[:3] == ["restored", "sync 2", "batch 2"]
    assert all(torch.equal(second.weights[-1][n], w) for n, w in whole.weights[-1].items())
    rates = [m["learning_rate"] for s in (first, second) for m in s.metrics]
    assert rates == [m["learning_rate"] for m in whole.metrics]


def test_an_update_without_samples_takes_none_of_its_steps(model, tmp_path):
    batches = [samples_of(groups(1)), [], samples_of(groups(2))]
    gap = Scripted(make=lambda n: batches[n])
    run(replace(TRAINER, max_steps=3), gap, model=model, folder=tmp_path)
    assert [m["skipped"] for m in gap.metrics] == [0, 1, 0]
    assert all(torch.equal(gap.weights[1][n], gap.weights[2][n]) for n in gap.weights[1])
    assert not all(torch.equal(gap.weights[2][n], gap.weights[3][n]) for n in gap.weights[1])
