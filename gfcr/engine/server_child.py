"""vLLM's own server, as a process that chooses its port and ends with the one that started it."""

import os
import runpy
import socket
import sys
from pathlib import Path
from typing import Final

from gfcr.process.cores import confine, told
from gfcr.process.parent import follow

HOST: Final = "GFCR_SERVER_HOST"
"""Names the address that it listens at; this machine's alone without."""
PARENT: Final = "GFCR_SERVER_PARENT"
"""The id of the process that starts it."""
_LOOPBACK: Final = "127.0.0.1"
_SERVER: Final = "vllm.entrypoints.openai.api_server"


def main() -> None:
    """Runs the server with the arguments of this process; the first is the file for its URL."""
    follow(int(os.environ[PARENT]))
    if cores := told():
        confine(cores)
    file = Path(sys.argv.pop(1))
    host = os.environ.get(HOST, _LOOPBACK)
    with socket.socket() as free:
        free.bind((host, 0))
        port = free.getsockname()[1]
    sys.argv += ["--host", host, "--port", str(port)]
    written = file.with_name(f"{file.name}.new")
    written.write_text(f"http://{host}:{port}")
    written.replace(file)
    runpy.run_module(_SERVER, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
