"""The seam's contract holds on the TRL minor before the installed one; all of it by `--whole`.

Install it with `pip install --no-deps --target .cache/trl-1.15.0 trl==1.15.0`; another folder is
named by `GFCR_TRL_PREVIOUS`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.timeout(600)

REPO = Path(__file__).parents[2]
PREVIOUS = Path(os.environ.get("GFCR_TRL_PREVIOUS", REPO / ".cache" / "trl-1.15.0")).resolve()
FEW = (
    "test_trl_exact.py::test_grpo_update_is_trl_s_own[dapo-grpo_advantages-group-256]",
    "test_trl_seam.py::test_source_is_called_in_order",
    "test_drop_in_settings.py::test_each_field_is_honoured_or_refused_with_a_reason",
)
"""The update, the order of calls and the settings."""
CONTRACT = (
    "test_trl_exact.py",
    "test_trl_rollout_func.py",
    "test_trl_seam.py::test_source_is_called_in_order",
    "test_trl_seam.py::test_fewer_samples_than_micro_batches_weigh_the_same",
    "test_trl_seam.py::test_an_update_without_samples_leaves_weights_and_momentum_alone",
    "test_trl_seam.py::test_the_end_of_the_source_ends_training",
    "test_trl_resume.py::test_stop_and_resume_is_no_stop_at_all",
    "test_drop_in_settings.py::test_each_field_is_honoured_or_refused_with_a_reason",
    "test_drop_in_settings.py::test_defaults_go_with_every_strategy_of_grpo_s_loss",
    "test_drop_in_settings.py::test_any_other_value_of_a_field_that_is_not_honoured_is_named",
    "test_drop_in_exact.py::test_the_update_is_trl_s_own[weights of rewards]",
    "test_drop_in_exact.py::test_the_update_is_trl_s_own[LoRA, KL, iterations]",
    "test_lora.py::test_the_adapters_become_those_of_trl_and_peft",
    "test_lora.py::test_a_resumed_run_is_bit_equal_and_its_checkpoints_hold_adapters",
    "test_trl_steps.py::test_steps_are_trl_s_own_and_clip",
    "test_drop_in_runs.py::test_evaluation_between_updates_changes_none_of_them[2]",
)


@pytest.fixture
def environment():
    if not (PREVIOUS / "trl").is_dir():
        message = f"no TRL in {PREVIOUS}: see the docstring of {Path(__file__).name}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    environment = os.environ | {"PYTHONPATH": str(PREVIOUS)}
    if not torch.cuda.is_available():
        # TRL 1.15 takes log-probs with Triton kernels, which a CPU can only interpret.
        environment["TRITON_INTERPRET"] = "1"
    return environment


def python(*arguments, env):
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=REPO,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )


@pytest.mark.whole
@pytest.mark.parametrize(
    "names", [FEW, pytest.param(CONTRACT, marks=pytest.mark.whole)], ids=["few", "all"]
)
def test_seam_holds_on_the_previous_minor(environment, names):
    version = python("-W", "ignore", "-c", "import trl; print(trl.__version__)", env=environment)
    assert version.stdout.startswith("1.15."), version.stdout
    tests = [f"tests/integration/{name}" for name in names]
    done = python("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, env=environment)
    assert done.returncode == 0, done.stdout[-6000:]
