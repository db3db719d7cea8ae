"""What all tests share: an offline, quiet environment and the skip of GPU tests."""

import gc
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.update(
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    HF_HUB_DISABLE_TELEMETRY="1",
    DO_NOT_TRACK="1",
    MLFLOW_DISABLE_TELEMETRY="true",
    VLLM_NO_USAGE_STATS="1",
    TOKENIZERS_PARALLELISM="false",
    # As the command line sets them: read when torch and MLflow are loaded.
    OMP_WAIT_POLICY="PASSIVE",
    MLFLOW_LOGGING_LEVEL="WARNING",
)
# Tests run side by side: more threads than one each would only wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Runs write and sync small files all the time, which takes a third of some tests' seconds.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# What is imported and collected stays: looking through it takes seconds each time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


# Timing on a shared machine says nothing about the code, and a failure should come back.
settings.register_profile("some", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("many", deadline=None, derandomize=True, max_examples=200)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole",
        action="store_true",
        help="every test and every case (`make test-all`), not every guard once",
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("many" if config.getoption("--whole") else "some")


@pytest.fixture(scope="session")
def whole(pytestconfig: pytest.Config) -> bool:
    """Whether every case is to be tried (`make test-all`)."""
    return bool(pytestconfig.getoption("--whole"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--whole"):
        config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker("whole")])
        items[:] = [i for i in items if not i.get_closest_marker("whole")]
    if shutil.which("nvidia-smi"):
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
