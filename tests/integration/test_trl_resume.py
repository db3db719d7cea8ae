"""A run that was cut and resumed equals one that was not (about 15 s alone)."""

from dataclasses import replace

import pytest
import torch

from gfcr.train.trl import Trl
from tests.integration.trl_script import Scripted, change, groups, run, samples_of, tiny_policy

TRAINER = Trl(max_steps=6, learning_rate=3e-3, schedule="linear", warmup_steps=2, save_every=2)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_policy(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    source = scripted()
    run(TRAINER, source, model=model, folder=tmp_path_factory.mktemp("whole"))
    return source


def scripted(**changes):
    return Scripted(make=lambda n: samples_of(groups(n)), **changes)


def batches(*sources):
    return [line for s in sources for line in s.diary if line.startswith("batch")]


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


def test_stop_and_resume_is_no_stop_at_all(model, tmp_path, whole):
    first, second = scripted(), scripted()
    stopped = run(
        TRAINER,
        first,
        model=model,
        folder=tmp_path,
        should_stop=lambda: len(first.metrics) == 3,
    )
    assert stopped.updates == 3
    resumed = run(TRAINER, second, model=model, folder=tmp_path)
    assert (resumed.updates, resumed.resumed_from) == (6, 3)
    assert second.diary[:3] == ["restored", "sync 3", "batch 3"]
    assert batches(first, second) == batches(whole)
    assert same(second.weights[-1], whole.weights[-1])
    rates = [m["learning_rate"] for s in (first, second) for m in s.metrics]
    assert rates == [m["learning_rate"] for m in whole.metrics]


class Killed(BaseException):
    """Stands for the process dying."""


def test_a_save_cut_short_is_set_aside(model, tmp_path, whole):
    class Dies(Scripted):
        def state_dict(self):
            if self.served == 4:
                raise Killed
            return super().state_dict()

    first = Dies(make=lambda n: samples_of(groups(n)))
    with pytest.raises(Killed):
        run(TRAINER, first, model=model, folder=tmp_path)
    assert (tmp_path / "checkpoint-4" / "model.safetensors").exists()
    second = scripted()
    resumed = run(TRAINER, second, model=model, folder=tmp_path)
    assert resumed.resumed_from == 2
    assert (tmp_path / "checkpoint-4.incomplete").is_dir()
    assert batches(second) == batches(whole)[2:]
    assert same(second.weights[-1], whole.weights[-1])


def test_a_finished_run_does_nothing_but_hand_over_its_policy(model, tmp_path):
    trainer = replace(TRAINER, max_steps=2, schedule="constant", warmup_steps=0)
    first, again, longer = scripted(), scripted(), scripted()
    run(trainer, first, model=model, folder=tmp_path)
    result = run(trainer, again, model=model, folder=tmp_path)
    assert (result.updates, result.resumed_from) == (2, 2)
    assert again.diary == ["restored", "sync 2"]
    assert same(again.weights[0], first.weights[-1])
    run(replace(trainer, max_steps=4), longer, model=model, folder=tmp_path)
    assert batches(longer) == ["batch 2", "batch 3"]


def test_kl_is_against_the_starting_policy_after_a_resume(model, tmp_path):
    trainer = replace(TRAINER, max_steps=3, beta=0.5, warmup_steps=0, save_every=1)
    whole = scripted()
    run(trainer, whole, model=model, folder=tmp_path / "whole")
    assert whole.metrics[0]["kl"] == pytest.approx(0, abs=1e-6) and whole.metrics[1]["kl"] > 1e-3
    first, second = scripted(), scripted()
    run(
        trainer,
        first,
        model=model,
        folder=tmp_path / "cut",
        should_stop=lambda: len(first.metrics) == 1,
    )
    run(trainer, second, model=model, folder=tmp_path / "cut")
    assert [m["kl"] for m in second.metrics] == [m["kl"] for m in whole.metrics[1:]]
    assert change(whole).norm() > 0


def test_only_the_newest_checkpoints_stay(model, tmp_path):
    run(replace(TRAINER, save_every=1), scripted(), model=model, folder=tmp_path)
    assert sorted(p.name for p in tmp_path.glob("checkpoint-*")) == ["checkpoint-5", "checkpoint-6"]
