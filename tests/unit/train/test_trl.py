import subprocess
import sys

import pytest

from gfcr.correction.own_tokens import OwnTokens
from gfcr.correction.truncated import Truncated
from gfcr.errors import ConfigError
from gfcr.train import trl_checks
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


@over("loss", [Loss(estimator="rloo"), Loss(estimator="sft"), Loss(estimator="dpo")])
def test_kl_where_there_is_none_in_the_loss_is_refused_before_anything_starts(tmp_path, loss):
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
    if sampling.temperature:
        Trl().check(Loss(), correction=OwnTokens(), sampling=sampling)  # it weighs no ratios


@over(
    ("loss", "message"),
    [
        (Loss(form="cispo", aggregation="grpo"), "aggregation='grpo': give 'dapo'"),
        (Loss(form="cispo"), r"clip_high=0.2 .* caps the ratio itself"),
        (Loss(form="sapo"), "aggregation='dapo': give 'grpo'"),
        (Loss(form="cispo", clip_low=0.1), "clip_low=0.1: no effect"),
        (Loss(form="sapo", aggregation="grpo", clip_high=0.3), "clip_high=0.3: no effect"),
        (Loss(form="vespo", level="sequence"), "level='sequence': no effect"),
        (
            Loss(estimator="rloo", form="cispo", aggregation="luspo"),
            "form='cispo', aggregation='luspo': no effect",
        ),
        (Loss(estimator="sft", delta=1.5), "delta=1.5, a correction: no effect"),
        (Loss(form="vespo"), "leave the correction out"),
    ],
)
def test_what_a_loss_does_not_have_is_refused(loss, message):
    with pytest.raises(ConfigError, match=message):
        Trl().check(loss, correction=Truncated(), sampling=Sampling())


@over(
    ("optimizer", "library"),
    [
        ("adamw_8bit", "bitsandbytes"),
        ("paged_lion_32bit", "bitsandbytes"),
        ("rmsprop_bnb", "bitsandbytes"),
        ("adamw_torch_8bit", "torchao"),
        ("schedule_free_sgd", "schedulefree"),
        ("grokadamw", "grokadamw"),
        ("stable_adamw", "optimi"),
        ("ademamix", "bitsandbytes"),
    ],
)
def test_an_optimizer_whose_library_is_missing_names_the_extra(
    optimizer, library, monkeypatch: pytest.MonkeyPatch
):
    there = set[str]()
    monkeypatch.setattr(trl_checks, "optimizers", lambda: (optimizer,))
    monkeypatch.setattr(trl_checks, "find_spec", lambda name: name if name in there else None)
    said = rf"trainer\.optimizer='{optimizer}' needs {library},.*pip install 'gfcr\[optimizers\]'"
    with pytest.raises(ConfigError, match=said):
        Trl(optimizer=optimizer).check(Loss(), correction=None, sampling=Sampling())
    there.add(library)
    Trl(optimizer=optimizer).check(Loss(), correction=None, sampling=Sampling())


@over("optimizer", ["lomo", "adalomo", "galore_adamw_8bit_layerwise", "apollo_adamw"])
def test_an_optimizer_that_steps_before_gradients_are_looked_at_is_refused(optimizer):
    said = rf"trainer\.optimizer='{optimizer}' is not allowed: it steps in the backward pass"
    with pytest.raises(ConfigError, match=said):
        Trl(optimizer=optimizer).check(Loss(), correction=None, sampling=Sampling())


@over("loss", [Loss(delta=1.5), Loss(level="sequence"), Loss(form="cispo")])
def test_a_spec_tells_what_is_set_alone_and_makes_the_same_loss(loss):
    assert Loss(**loss.spec()) == loss and loss.spec().keys() - Loss().spec().keys()
    assert Loss().spec().keys() == {
        *("estimator", "aggregation", "clip_low", "clip_high", "off_policy", "beta")
    }


def test_settings_load_no_training_library():
    code = (
        "import sys, gfcr.train.trl, gfcr.train.dry, gfcr.train.rollout_func\n"
        "print({'torch', 'trl', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
