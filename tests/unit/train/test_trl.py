import subprocess
import sys

import pytest

from gfcr.errors import ConfigError
from gfcr.train.base import TrainJob
from gfcr.train.trl import Trl
from gfcr.types import Loss, Sampling
from tests.cases import over


@over(
    ("settings", "message"),
    [
        ({"max_steps": 0}, "Trl.max_steps=0 is not allowed: give an integer from 1 to"),
        ({"micro_batches": 1}, "Trl.micro_batches=1 is not allowed: give an integer from 2 to"),
        ({"learning_rate": 0}, "Trl.learning_rate=0 is not allowed"),
        ({"beta": -1}, "Trl.beta=-1 is not allowed: give a number from 0 to"),
        ({"adam_beta2": 1.0}, "Trl.adam_beta2=1.0 is not allowed"),
        ({"warmup_steps": 3}, "'constant' has no warm-up"),
        ({"schedule": "cosin"}, "Did you mean 'cosine'"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ConfigError) as caught:
        Trl(**settings)
    assert message in str(caught.value)


@over("loss", [Loss(estimator="rloo"), Loss(aggregation="grpo"), Loss(aggregation="dr_grpo")])
def test_kl_where_it_would_not_be_exact_is_refused_before_anything_starts(tmp_path, loss):
    job = TrainJob(model="none", source=None, loss=loss, seed=0, folder=tmp_path)
    with pytest.raises(ConfigError, match=r"trainer.beta=0.1"):
        Trl(beta=0.1).train(job)


@over(
    ("sampling", "message"),
    [
        (Sampling(temperature=0), "sampling.temperature=0 is not allowed"),
        (Sampling(top_p=0.9), "top_p=0.9"),
        (Sampling(top_k=5), "top_k=5"),
        (Sampling(min_p=0.1), "min_p=0.1"),
    ],
)
def test_sampling_that_biases_the_loss_is_refused(tmp_path, sampling, message):
    job = TrainJob(
        model="none",
        source=None,
        loss=Loss(off_policy="behaviour"),
        seed=0,
        folder=tmp_path,
        sampling=sampling,
    )
    with pytest.raises(ConfigError, match=message):
        Trl().train(job)


def test_settings_load_no_training_library():
    code = (
        "import sys, gfcr.train.trl, gfcr.train.dry, gfcr.train.rollout_func\n"
        "print({'torch', 'trl', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
