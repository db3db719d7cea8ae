from dataclasses import dataclass, field

import pytest

from gfcr.errors import ConfigError
from gfcr.train import checkpoint
from gfcr.train.base import TrainJob
from gfcr.train.dry import Dry
from gfcr.types import Cost, Loss, RolloutBatch
from tests.cases import over


@dataclass(kw_only=True)
class Source:
    """Serves empty batches and keeps a diary."""

    stop_after: int = 99
    served: int = 0
    diary: list[str] = field(default_factory=list)

    def next_batch(self):
        if self.served >= self.stop_after:
            return None
        self.served += 1
        self.diary.append(f"batch {self.served}")
        return RolloutBatch(
            step=self.served,
            version=self.served,
            samples=(),
            groups=(),
            aborted=(),
            cost=Cost(),
            metrics={},
        )

    def sync(self, weights, *, version):
        assert not list(weights)
        self.diary.append(f"sync {version}")

    def updated(self, *, step, metrics):
        assert metrics["skipped"] == 1
        self.train_s = metrics["train_s"]
        self.diary.append(f"updated {step}")

    def state_dict(self):
        self.diary.append("state")
        return {"served": self.served}

    def load_state_dict(self, state):
        self.served = state["served"]


def run(trainer, source, folder, should_stop=lambda: False):
    return trainer.train(
        TrainJob(
            model="m", source=source, loss=Loss(), seed=0, folder=folder, should_stop=should_stop
        )
    )


def test_calls_the_source_as_a_real_trainer_does(tmp_path):
    source = Source()
    result = run(Dry(max_steps=2), source, tmp_path)
    assert source.diary == [
        *("sync 0", "batch 1", "updated 1"),
        *("sync 1", "batch 2", "updated 2", "state", "sync 2"),
    ]
    assert (result.updates, result.resumed_from, result.model) == (2, 0, "m")


@over("updates", [0, 3, 4])
def test_the_end_of_the_source_is_saved(tmp_path, updates):
    result = run(Dry(max_steps=9, save_every=2), Source(stop_after=updates), tmp_path)
    assert result.updates == updates
    assert checkpoint.newest(tmp_path) == tmp_path / f"checkpoint-{updates}"


def test_stop_and_resume_is_no_stop_at_all(tmp_path):
    whole, first, second = Source(), Source(), Source()
    run(Dry(max_steps=5), whole, tmp_path / "whole")
    stopped = run(Dry(max_steps=5), first, tmp_path / "cut", lambda: first.served == 3)
    resumed = run(Dry(max_steps=5), second, tmp_path / "cut")
    assert (stopped.updates, resumed.updates, resumed.resumed_from) == (3, 5, 3)
    served = [line for s in (first, second) for line in s.diary if "batch" in line]
    assert served == [line for line in whole.diary if "batch" in line]


def test_a_finished_run_asks_for_nothing(tmp_path):
    again = Source()
    run(Dry(max_steps=2), Source(), tmp_path)
    assert run(Dry(max_steps=2), again, tmp_path).updates == 2
    assert again.diary == ["sync 2"]


@over("key", ["max_steps", "save_every", "keep_checkpoints"])
def test_settings_are_checked(key):
    with pytest.raises(ConfigError, match=rf"{key}=0 is not allowed: give an integer from 1 to"):
        Dry(**{key: 0})


def test_an_update_takes_as_long_as_it_is_told_to(tmp_path):
    source = Source(stop_after=1)
    run(Dry(train_s=0.05), source, tmp_path)
    assert source.train_s >= 0.05
