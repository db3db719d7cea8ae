"""A real MLflow server for the tests."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from tests import stores


class Server:
    """An MLflow server of its own, on a free port, that can be killed and started again."""

    def __init__(self, path: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.path, self.uri = path, f"http://127.0.0.1:{self.port}"
        stores.sqlite(path, "server.db")

    def start(self) -> None:
        store = f"sqlite:///{self.path / 'server.db'}"
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        files = ["--backend-store-uri", store, "--artifacts-destination", str(self.path / "files")]
        with (self.path / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *options, *files],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=2):
                    return
            except OSError:
                assert self.process.poll() is None, (self.path / "server.log").read_text()[-2000:]
                time.sleep(0.3)
        raise TimeoutError((self.path / "server.log").read_text()[-2000:])

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
