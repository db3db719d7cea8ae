"""`python -m gfcr.launch.ray_server NUMBER COMMAND...`: a vLLM server of a trial, on its bundle.

Takes the place of the server in the process that starts it, and ends with either. The trial's
sweep holds the placement group, as `gfcr.launch.ray` says.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, final

from gfcr.code import optional
from gfcr.engine.server_child import HOST, PARENT
from gfcr.engine.server_process import THROUGH
from gfcr.engine.server_settings import EXCHANGE
from gfcr.process.worker import command, follow

_HERE: Final = "gfcr.launch.ray_server"
_TOLD: Final = "GFCR_RAY_SERVERS"
_OF_A_NODE: Final = ("RAY_", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
_STOP_S: Final = 10.0


@final
@dataclass(frozen=True, kw_only=True)
class Bundles:
    """The placement group in which the servers of a trial run."""

    address: str
    """Address of the cluster."""
    namespace: str
    group: str
    """Name of the placement group; its first bundle is the trial's own."""
    cpus: float
    gpus: float

    def environment(self, *, exchange: Path) -> dict[str, str]:
        """Returns environment variables that make the trial start its servers there.

        Args:
            exchange: folder for weights that all nodes see.
        """
        through = json.dumps(command(_HERE))
        return {_TOLD: json.dumps(asdict(self)), THROUGH: through, EXCHANGE: str(exchange)}


def main() -> None:
    """Runs the command on its bundle until it ends."""
    follow(int(os.environ[PARENT]))
    bundles = Bundles(**json.loads(os.environ[_TOLD]))
    number, *line = sys.argv[1:]
    ray = optional.load("ray")
    ray.init(address=bundles.address, namespace=bundles.namespace, log_to_driver=False)
    strategies = optional.load("ray.util.scheduling_strategies")
    place = strategies.PlacementGroupSchedulingStrategy(
        placement_group=ray.util.get_placement_group(bundles.group),
        placement_group_bundle_index=1 + int(number),
    )
    task = ray.remote(num_cpus=bundles.cpus, num_gpus=bundles.gpus, max_retries=0)(_serve)
    # Which devices a task has, Ray says on the node that it runs on.
    own = {k: v for k, v in os.environ.items() if not k.startswith(_OF_A_NODE)}
    sys.exit(ray.get(task.options(scheduling_strategy=place).remote(line, variables=own)))


def _serve(line: Sequence[str], *, variables: Mapping[str, str]) -> int:
    """Runs the server on its node, for as long as this task lives."""
    ray: Any = optional.load("ray")
    own = {PARENT: str(os.getpid()), HOST: ray.util.get_node_ip_address()}
    # It leads a group of its own, so that what the server starts ends with it.
    process = subprocess.Popen(line, env={**os.environ, **variables, **own}, start_new_session=True)
    try:
        return process.wait()
    finally:
        for kind in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, kind)
                process.wait(_STOP_S)


if __name__ == "__main__":
    main()
