"""Launcher of trials on a Ray cluster; the only import of ray."""

import os
import socket
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, final
from uuid import uuid4

from annotated_types import Interval

from gfcr import registry
from gfcr.code import optional
from gfcr.errors import ConfigError, GfcrError, described
from gfcr.launch.base import Job, JobEnd, Launcher, Watch
from gfcr.launch.process import ended
from gfcr.launch.ray_server import Bundles
from gfcr.launch.remote import absolute, look_at, run_trial, stamp
from gfcr.tracking.lock import is_locked
from gfcr.values.ranges import File, Natural

_POLL_S = 0.5
_GRACE_S = 25.0
_ANSWER_S = 5.0
_STORE_BYTES = 100_000_000


@final
@dataclass(kw_only=True)
class Ray(Launcher):
    """Runs trials as tasks of a Ray cluster, as many at a time as fit.

    The nodes share the folder of the study (a network file system) and have gfcr installed alike.
    A trial whose node is lost is given to another one, where it resumes from its run folder. A
    trial that another sweep runs is left to it.
    """

    address: File | None = None
    """Address of a running cluster, `host:port` or `auto`; None starts Ray on this machine."""
    cpus: Annotated[float, Interval(ge=0, le=10000)] = 1.0
    """Cores given to each trial."""
    gpus: Annotated[float, Interval(ge=0, le=10000)] = 0.0
    """Devices given to each trial."""
    server_cpus: Annotated[float, Interval(ge=0, le=10000)] = 0.0
    """Cores of each vLLM server that a trial's engine starts (`vllm_server`, `pool`), on a node
    that has them. If `server_gpus` is 0 too, servers are the trial's children and share its own."""
    server_gpus: Annotated[float, Interval(ge=0, le=10000)] = 0.0
    """Devices of each of these servers."""
    retries: Natural = 3
    """Number of times that a trial is given to another node when its own is lost; a trial that
    fails is not run again."""

    def __post_init__(self) -> None:
        if self.cpus + self.gpus == 0:
            raise ConfigError("launcher: cpus=0, gpus=0: of the two give one > 0.")

    def run(self, jobs: Sequence[Job], *, begin: Watch, watch: Watch) -> Generator[JobEnd]:
        """See `Launcher.run`.

        Raises:
            GfcrError: there is no cluster at `address`, or no node of it is large enough.
        """
        with _connected(self.address) as ray:
            _check_room(ray, cpus=self.cpus, gpus=self.gpus)
            _check_room(ray, cpus=self.server_cpus, gpus=self.server_gpus, whose="server_")
            waiting, tasks = list(jobs), dict[Any, Job]()
            groups, stamps = dict[str, Any](), dict[str, int]()
            try:
                while waiting or tasks:
                    for job in [job for job in waiting if not is_locked(job.folder)]:
                        waiting.remove(job)
                        stamps[job.name], groups[job.name] = stamp(job), self._group(ray, job)
                        tasks[self._begin(ray, job, group=groups[job.name])] = job
                    done = _ended(ray, list(tasks))
                    look_at(tasks.values(), stamps=stamps, begin=begin, watch=watch)
                    for ref in done:
                        job = tasks.pop(ref)
                        _release(ray, groups.pop(job.name))
                        yield from ended(job, _result(ray, ref), waiting=waiting)
            finally:
                _cancel(ray, list(tasks))
                for group in groups.values():
                    _release(ray, group)

    def _group(self, ray: Any, job: Job) -> Any:
        """Reserves room for a trial and its servers; None if these have no room of their own."""
        servers = registry.build("engine", job.config["engine"], where="engine").servers
        room = _bundle(cpus=self.server_cpus, gpus=self.server_gpus)
        if not (servers and room):
            return None
        bundles = [_bundle(cpus=self.cpus, gpus=self.gpus), *[room] * servers]
        return ray.util.placement_group(bundles, name=f"gfcr-{uuid4().hex}")

    def _begin(self, ray: Any, job: Job, *, group: Any) -> Any:
        options: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus}
        job = absolute(job)
        if group is not None:
            here = ray.get_runtime_context()
            bundles = Bundles(
                address=here.gcs_address,
                namespace=here.namespace,
                group=ray.util.placement_group_table(group)["name"],
                cpus=self.server_cpus,
                gpus=self.server_gpus,
            )
            exchange = job.folder.with_name(f"{job.folder.name}.servers")
            strategies = optional.load("ray.util.scheduling_strategies")
            place = strategies.PlacementGroupSchedulingStrategy
            options["scheduling_strategy"] = place(group, placement_group_bundle_index=0)
            options["runtime_env"] = {"env_vars": bundles.environment(exchange=exchange)}
        task = ray.remote(**options, max_retries=self.retries)(run_trial)
        return task.remote(job, cwd=Path.cwd(), since=stamp(job))


@contextmanager
def _connected(address: str | None) -> Generator[Any, None, None]:
    """Yields the `ray` module, connected; disconnects only a connection made here."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = optional.load("ray")
    if ray.is_initialized():
        yield ray
        return
    if address is not None:
        _check_answers(address)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        # Nothing but the trials' answers passes through its store.
        options |= {"include_dashboard": False, "object_store_memory": _STORE_BYTES}
    try:
        ray.init(address=address or "local", **options)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise _no_cluster(address, error=error) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Checks that an address answers, since Ray itself asks a dead one for over a minute."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "://" in address:
        return
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_S).close()
    except OSError as error:
        raise _no_cluster(address, error=error) from error


def _no_cluster(address: str | None, *, error: Exception) -> GfcrError:
    return GfcrError(
        f"launcher.address={address!r}: no Ray cluster answers ({error}). Start one with `ray "
        "start --head`, or leave the address out to use this machine."
    )


def _check_room(ray: Any, *, cpus: float, gpus: float, whose: str = "") -> None:
    """Warns if no node is large enough: a task would wait for ever, unless the cluster grows."""
    alive = [n["Resources"] for n in ray.nodes() if n["Alive"]]
    if not any(r.get("CPU", 0) >= cpus and r.get("GPU", 0) >= gpus for r in alive):
        held = ", ".join(f"{r.get('CPU', 0):g} CPU + {r.get('GPU', 0):g} GPU" for r in alive)
        print(
            f"gfcr: no node has launcher.{whose}cpus={cpus:g} and launcher.{whose}gpus={gpus:g} "
            f"(nodes: {held}). Trials wait for one that has; interrupt and give less if none will "
            "come.",
            file=sys.stderr,
        )


def _bundle(**room: float) -> dict[str, float]:
    return {kind[:-1].upper(): num for kind, num in room.items() if num}


def _release(ray: Any, group: Any) -> None:
    if group is not None and ray.is_initialized():
        ray.util.remove_placement_group(group)


def _ended(ray: Any, tasks: list[Any]) -> list[Any]:
    """Waits a moment, and returns the tasks that have ended."""
    if tasks:
        return ray.wait(tasks, timeout=_POLL_S)[0]
    time.sleep(_POLL_S)  # Ray refuses to wait for no task
    return []


def _result(ray: Any, ref: Any) -> dict[str, Any]:
    try:
        return ray.get(ref)
    except ray.exceptions.RayTaskError as error:
        return {"status": "failed", "error": f"its task failed: {described(error.cause)}"}
    except ray.exceptions.RayError as error:
        words = str(error).strip().partition("\n")[0]
        why = f"its node was lost and could not be replaced ({type(error).__name__}: {words})"
        return {"status": "failed", "error": f"{why}. The same command runs it on."}


def _cancel(ray: Any, tasks: list[Any]) -> None:
    """Cancels running tasks before the connection ends, so that none outlives the sweep."""
    if not tasks or not ray.is_initialized():
        return
    for ref in tasks:
        # It is not by force, so that the task can have its trial record that it is paused.
        ray.cancel(ref, force=False)
    ray.wait(tasks, num_returns=len(tasks), timeout=_GRACE_S)
