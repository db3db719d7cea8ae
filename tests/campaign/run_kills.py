"""Runs beside a server that are killed at moments drawn at random, and begun again.

python -m tests.campaign.run_kills --kills 10    # 26 minutes on two cores that others used

Under each schedule one run is killed so often in the middle of a batch, and so often while weights
go to the server. The same command brings it to its end: no update is missing, no token counted
twice or trained on twice, and no policy is older than the schedule allows.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

import yaml

from gfcr.engine.server_loop import ServerEngine
from gfcr.engine.vllm_server import VllmServer
from gfcr.tracking.rollouts import read_update
from tests.integration.cli import ROOT
from tests.integration.test_schedules import run, values, within_its_bound
from tests.integration.tiny_model import tiny_chain_sum

SCHEDULES: dict[str, tuple[Any, int]] = {
    "sync": ("sync", 0),
    "lag": ({"name": "lag"}, 1),
    "async": ({"name": "async", "staleness": 2}, 2),
}
"""Each schedule with its bound on staleness."""
LIMIT = 300.0
"""Seconds in which a run that was begun again has to sync."""


def syncs(exchange: Path) -> set[str]:
    """The files of weights that lie there, which are new with each sync."""
    found = ((place, name) for place, _, names in os.walk(exchange) for name in names)
    return {f"{place}/{name}" for place, name in found if name.startswith("weights-")}


def killed(file: Path, *, exchange: Path, after: int, pause: float) -> bool:
    """Runs the experiment and kills it so many syncs and seconds after; False if it ended first."""
    command = [sys.executable, "-m", "gfcr", "run", str(file)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    seen, until = syncs(exchange), time.monotonic() + LIMIT
    while after and process.poll() is None:
        assert time.monotonic() < until, "no weights came"
        if not syncs(exchange) <= seen:
            after, seen = after - 1, seen | syncs(exchange)
        time.sleep(0.002)
    time.sleep(pause)
    process.kill()  # nothing, if it has ended
    said = process.communicate()[1].decode()
    assert process.returncode in (0, -signal.SIGKILL), said
    return process.returncode != 0


def campaign(name: str, *, engine: ServerEngine, model: str, place: Path, kills: int) -> None:
    """Kills the run of a schedule so often each way, and checks what became of it."""
    (schedule, bound), draw = SCHEDULES[name], Random(name)
    given = values(place, model=model, engine=engine, schedule=schedule)
    given["trainer"]["max_steps"] = updates = 6 * kills
    file, exchange = place / "experiment.yaml", place / "exchange"
    file.write_text(yaml.safe_dump(given))
    for n in range(2 * kills):
        way, most = (("batch", 1.5), ("sync", 0.03))[n % 2]
        after, pause = draw.randint(2, 5), draw.uniform(0.0, most)
        alive = killed(file, exchange=exchange, after=after, pause=pause)
        print(f"{name}, kill {n + 1}, in its {way}: {'killed' if alive else 'it had ended'}")
    result, records = run(given)
    assert [*records.updates] == [*range(updates)]
    stored = [read_update(held) for held in records.updates.values()]
    trained = [rollout for held in stored for _, rollout in held.trained]
    assert len(trained) == len({*trained}), "a rollout was trained on twice"
    if bound:
        within_its_bound(result, records, bound=bound, updates=updates)
    assert result["status"] == "finished" and result["tokens"]["remainder"] == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (place := Path(folder) / "model").mkdir()
        model = tiny_chain_sum(place)
        engine = VllmServer(kv_cache_gib=0.25, max_running=32).start(model=model, seed=0)
        try:
            for name in SCHEDULES:
                place = Path(folder) / name
                place.mkdir()
                campaign(name, engine=engine, model=model, place=place, kills=asked.kills)
        finally:
            engine.close()
    print("every run came to its end, every token counted once")


if __name__ == "__main__":
    main()
