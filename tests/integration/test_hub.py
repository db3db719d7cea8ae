"""A run's rollout log, pushed to a Hub with `datasets` as the docs say. The Hub is a local one."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet as parquet
import pytest

from gfcr import cli

ROOT = Path(__file__).parents[2]
REPOSITORY = "me/rollouts"
TOKEN = "hf_mine"


class Hub(ThreadingHTTPServer):
    """As much of the Hub's protocol as a push to a new dataset repository needs."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.tokens: set[str | None] = set()
        self.made: dict[str, Any] | None = None
        self.blobs: dict[str, bytes] = {}
        self.files: dict[str, bytes] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.server.tokens.add(self.headers.get("Authorization"))
        if self.server.made is None:
            self.answer({}, code=404, error="RepoNotFound")
        elif "/tree/" not in self.path:
            self.answer({"id": REPOSITORY, "sha": "0" * 40, "siblings": [], "tags": []})
        elif self.path.partition("?")[0].endswith("/data"):
            self.answer({}, code=404, error="EntryNotFound")
        else:
            self.answer([{"type": "file", "path": ".gitattributes", "oid": "0" * 40, "size": 1}])

    def do_POST(self) -> None:
        self.server.tokens.add(self.headers.get("Authorization"))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        at = f"{self.server.url}/datasets/{REPOSITORY}"
        if self.path.endswith("/create"):
            self.server.made = json.loads(body)
            self.answer({"url": at, "name": REPOSITORY, "id": "1"})
        elif "/preupload/" in self.path:
            paths = [file["path"] for file in json.loads(body)["files"]]
            modes = {p: "lfs" if p.endswith(".parquet") else "regular" for p in paths}
            files = [{"path": p, "uploadMode": m, "shouldIgnore": False} for p, m in modes.items()]
            self.answer({"files": files})
        elif self.path.endswith("/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            for o in objects:
                o["actions"] = {"upload": {"href": f"{self.server.url}/{o['oid']}"}}
            self.answer({"transfer": "basic", "objects": objects})
        elif "/commit/" in self.path:
            lines = [json.loads(line) for line in body.splitlines()]
            added = [line["value"] for line in lines if line["key"] == "lfsFile"]
            self.server.files |= {a["path"]: self.server.blobs[a["oid"]] for a in added}
            self.answer({"commitUrl": f"{at}/commit/{'1' * 40}", "commitOid": "1" * 40})
        else:
            self.answer({})

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.blobs[self.path.removeprefix("/")] = body
        self.answer({})

    def answer(self, data: Any, *, code: int = 200, error: str | None = None) -> None:
        body = json.dumps(data).encode()
        self.send_response(code)
        if error:
            self.send_header("X-Error-Code", error)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_a_rollout_log_is_pushed_with_the_users_token(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ("model=none", "engine=fake", "trainer=dry", "trainer.max_steps=2", "tracking=local")
    base = str(ROOT / "experiments" / "quickstart" / "base.yaml")
    assert cli.main(["run", base, *small, "prompts=4", "evaluation.prompts=4"]) == 0
    (log,) = tmp_path.glob("runs/*/*/*/rollouts")
    page = (ROOT / "docs" / "run-an-experiment.md").read_text()
    (script,) = re.findall(r"```python\n(.*?push_to_hub.*?)```", page, flags=re.DOTALL)
    told = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "hf")}
    # Without Xet: its uploads need a storage server of their own.
    online = {"HF_HUB_OFFLINE": "0", "HF_DATASETS_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}
    (tmp_path / "push.py").write_text(script.replace("RUN/rollouts", str(log)))
    subprocess.run(
        [sys.executable, "push.py"], cwd=tmp_path, env={**os.environ, **told, **online}, check=True
    )
    assert hub.made is not None
    assert hub.made["type"] == "dataset" and hub.made["visibility"] == "private"
    assert hub.tokens == {f"Bearer {TOKEN}"}
    (pushed,) = hub.files.values()
    rows = parquet.read_table(pyarrow.BufferReader(pushed)).to_pylist()
    updates = [parquet.read_table(file).to_pylist() for file in sorted(log.glob("*.parquet"))]
    assert len(updates) == 2
    assert rows == [row for update in updates for row in update]
