"""What all tests share: an offline, quiet environment, options, and what is said at the end."""

import faulthandler
import gc
import os
import random
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import psutil
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
    MLFLOW_LOGGING_LEVEL="CRITICAL",
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
    gc.set_threshold(50_000)  # as a run has it, see `gfcr.process.environment`
    gc.enable()


# Timing on a shared machine says nothing about the code, and a failure should come back.
settings.register_profile("some", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("many", deadline=None, derandomize=True, max_examples=200)


@pytest.fixture(autouse=True, scope="module")
def _left_alone() -> Generator[None]:
    """Leaves what a file left behind out of the collections that engines and trainers ask for."""
    yield
    gc.collect()
    gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole",
        action="store_true",
        help="every test and every case (`make test-all`), not every guard once",
    )

    parser.addoption(
        "--perturb",
        type=int,
        metavar="SEED",
        help="noise on the weights of every demo model: what another processor would have trained",
    )
    parser.addoption(
        "--shuffle", type=int, metavar="SEED", help="test files in another order, by the seed"
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("many" if config.getoption("--whole") else "some")
    _stacks_on_request(config)
    seed = config.getoption("--perturb")
    if seed is not None and not hasattr(config, "workerinput"):
        from tests import perturbed

        folder = Path(tempfile.mkdtemp(prefix="gfcr-perturbed-"))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        perturbed.use(seed, folder=folder / "models")  # workers inherit the environment


def _stacks_on_request(config: pytest.Config) -> None:
    """On SIGUSR1, which `scripts/watchdog.sh` sends, the stacks of all threads go to a file."""
    path = Path(__file__).parents[1] / ".cache" / "stacks" / f"{os.getpid()}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("w")
    faulthandler.register(signal.SIGUSR1, file=file, all_threads=True)
    config.add_cleanup(file.close)
    config.add_cleanup(lambda: path.unlink(missing_ok=True))
    config.add_cleanup(lambda: faulthandler.unregister(signal.SIGUSR1))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    """Ends the processes that a failed test started: a wait that failed has not ended them."""
    # As psutil tells when a process began: in ticks of 10 ms since the machine did.
    began = psutil.boot_time() + time.clock_gettime(time.CLOCK_BOOTTIME) - 0.01
    try:
        return (yield)
    except BaseException:
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if child.create_time() >= began:
                    child.kill()
        raise


@pytest.fixture(scope="session")
def whole(pytestconfig: pytest.Config) -> bool:
    """Whether every case is to be tried (`make test-all`)."""
    return bool(pytestconfig.getoption("--whole"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--whole"):
        config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker("whole")])
        items[:] = [i for i in items if not i.get_closest_marker("whole")]
    if (seed := config.getoption("--shuffle")) is not None:
        files = sorted({item.path for item in items})
        random.Random(seed).shuffle(files)
        items.sort(key=lambda item: files.index(item.path))
    if shutil.which("nvidia-smi"):
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was run: cases and seconds of each folder."""
    cases, seconds = Counter[str](), Counter[str]()
    for report in (r for all_ in terminalreporter.stats.values() for r in all_):
        if isinstance(report, pytest.TestReport):
            folder = str(Path(report.nodeid.partition("::")[0]).parent)
            cases[folder] += report.when == "call"
            seconds[folder] += report.duration
    terminalreporter.section("cases and worker-seconds by folder")
    for folder in sorted(cases):
        terminalreporter.line(f"{cases[folder]:6} {seconds[folder]:8.1f} s  {folder}")
    terminalreporter.line(f"{cases.total():6} {seconds.total():8.1f} s  in all")
