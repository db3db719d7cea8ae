"""What all tests share: an offline, quiet environment and the skip of GPU tests."""

import os
import shutil

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
    OMP_WAIT_POLICY="PASSIVE",  # as the command line sets it: read when torch is loaded
)

# Timing on a shared machine says nothing about the code, and a failure should come back.
settings.register_profile("gfcr", deadline=None, derandomize=True)
settings.load_profile("gfcr")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole",
        action="store_true",
        help="every case of campaigns and calibrations, not the sample that fits in ten minutes",
    )


@pytest.fixture(scope="session")
def whole(pytestconfig: pytest.Config) -> bool:
    """Whether every case is to be tried (`make test-all`)."""
    return bool(pytestconfig.getoption("--whole"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if shutil.which("nvidia-smi"):
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))
