"""The drop-in for unmodified TRL scripts, through a stock GRPOTrainer (about 10 s)."""

import pytest
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from gfcr.errors import EngineError
from gfcr.train.rollout_func import make_rollout_func, reward
from tests.integration.trl_script import (
    Scripted,
    change,
    groups,
    plain_sgd,
    relative,
    run,
    samples_of,
    tiny_policy,
)
from tests.integration.trl_stock import arguments, train_stock


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_policy(tmp_path_factory.mktemp("model"))


class FakeGenerator:
    """Answers with scripted groups and keeps what it was asked."""

    def __init__(self, *, drop=0):
        self.asked, self.versions, self.drop = [], [], drop

    def generate(self, prompts, *, counts):
        self.asked.append((list(prompts), list(counts)))
        flat = [r for group in groups(len(self.asked) - 1) for r in group]
        return flat[self.drop :]

    def sync(self, weights, *, version):
        assert dict(weights)
        self.versions.append(version)


def stock(model, folder, generator):
    return GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=GRPOConfig(**arguments(folder, rollouts=16, size=4)),
        train_dataset=Dataset.from_dict({"prompt": list("0123")}),
        rollout_func=make_rollout_func(generator.generate, sync=generator.sync),
    )


def test_an_unmodified_trainer_takes_the_same_steps_as_the_seam(model, tmp_path):
    generator = FakeGenerator()
    through_trl = train_stock(stock(model, tmp_path / "a", generator))
    assert generator.asked == [(["0", "1", "2", "3"], [4, 4, 4, 4])] * 2
    assert generator.versions == [0, 1]
    source = Scripted(make=lambda n: samples_of(groups(n)))
    run(plain_sgd(), source, model=model, folder=tmp_path / "b")
    assert relative(through_trl, change(source)) < 1e-5


def test_dropping_a_rollout_is_refused(model, tmp_path):
    with pytest.raises(EngineError, match="asked for 16 completions and got 15"):
        train_stock(stock(model, tmp_path, FakeGenerator(drop=1)))
