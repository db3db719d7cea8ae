"""The client of what is served, in a process of its own, so that rollouts do not delay its clock.

Told on stdin, as JSON, what to send and where; answers with two lines: when it begins, and what
became of it.
"""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, final

from benchmarks.rose.open_loop import OpenLoop
from benchmarks.rose.trace import Trace
from gfcr.cluster.gate import Gate
from gfcr.cluster.slack import Admission, Objectives
from gfcr.cluster.watch import Watch
from gfcr.errors import EngineError
from gfcr.process.worker import Worker
from gfcr.speculation.cost import PassCost

_MODULE: Final = "benchmarks.rose.traffic"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What to send."""

    url: str
    """Address of the server."""
    trace: Trace
    vocab: int
    """Prompts are drawn from so many tokens."""
    gate: str = ""
    """File of the gate that is told; empty: nobody is told."""
    admission: Admission | None = None
    """When rollouts are let in beside it, for the gate."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of the requests."""

    ttft_s: list[float]
    tpot_s: list[float]
    answered: int
    failed: dict[str, str]
    """Why requests were not answered."""


@final
class Sender:
    """A client that sends now."""

    def __init__(self, traffic: Traffic, *, log: Path) -> None:
        """Starts it, and returns when it begins to send.

        Raises:
            EngineError: it does not.
        """
        self._worker = Worker(_MODULE)
        self._lines = self._worker.lines(json.dumps(asdict(traffic)).encode(), log=log)
        self.began_s = float(self._next())
        """When it began to send, by the machine's monotonic clock."""

    def result(self) -> Answered:
        """Waits for the last answer.

        Raises:
            EngineError: the client has ended before.
        """
        found = Answered(**json.loads(self._next()))
        self._lines.close()
        return found

    def kill(self) -> None:
        """Ends it as it stands: nobody tells the gate any more."""
        self._lines.close()

    def _next(self) -> bytes:
        line = next(self._lines, None)
        if line is None:
            raise EngineError(
                f"the client of what is served ended with exit code {self._worker.code}: "
                f"{self._worker.said[-1000:]}"
            )
        return line


@contextmanager
def sending(traffic: Traffic, *, log: Path) -> Generator[Sender]:
    """A client that is ended with the block."""
    sender = Sender(traffic, log=log)
    try:
        yield sender
    finally:
        sender.kill()


def main() -> None:
    """Sends what stdin says."""
    with suppress(PermissionError):
        # A client that waits for its core, which rollouts have too, would count that as latency.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    told = json.load(sys.stdin)
    trace = Trace(**told["trace"])
    gate = Gate(told["gate"]) if told["gate"] else None
    arrivals, admission = trace.arrivals(), _admission(told["admission"])
    watch = Watch(gate=gate, admission=admission, keep=sum(each.output for each in arrivals))
    client = OpenLoop(
        told["url"], arrivals=arrivals, watch=watch, vocab=told["vocab"], seed=trace.seed
    )
    client.warm_up()
    print(watch.clock(), flush=True)
    client.run()
    found = Answered(
        ttft_s=[*watch.ttft_s],
        tpot_s=[*watch.tpot_s],
        answered=client.answered,
        failed=client.failed,
    )
    print(json.dumps(asdict(found)), flush=True)


def _admission(told: dict[str, Any] | None) -> Admission | None:
    if told is None:
        return None
    own: dict[str, Any] = {
        "objectives": Objectives(**told["objectives"]),
        "cost": PassCost(**told["cost"]),
    }
    return Admission(**{**told, **own})


if __name__ == "__main__":
    main()
