"""A chat model, data and rewards of one's own on vLLM and TRL: docs/first-hour.md as it stands.

And experiments/gsm8k on the small model and data of its script, from which nothing else differs.
"""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests import small_chat
from tests.commands import gfcr
from tests.integration import first_hour

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / "small"
    small_chat.make(folder)
    return folder


@pytest.mark.whole
def test_the_page_s_commands_say_what_it_shows(small: Path, tmp_path: Path) -> None:
    first_hour.bring(tmp_path, model=small / "model")
    said = first_hour.transcript(tmp_path)
    again = "run python -m tests.integration.first_hour"
    assert first_hour.plain(said) == first_hour.plain(first_hour.shown()), again
    assert len(list(tmp_path.glob("runs/mine/*/*/rollouts/update-*.parquet"))) == 2


@pytest.mark.whole
@pytest.mark.parametrize(
    "more",
    [(), ("trainer.lora.rank=4", "trainer.learning_rate=1.0e-3", "trainer.schedule=linear")],
    ids=["full", "lora"],
)
def test_gsm8k_s_files_train_the_small_model(small: Path, more: tuple[str, ...]) -> None:
    page = (small_chat.GSM8K / "README.md").read_text().replace("\\\n", "")
    (command,) = re.findall(r"^gfcr (run .* model=small/model .*)$", page, re.M)
    where = small.parent
    if not (where / "experiments").exists():
        (where / "experiments").symlink_to(small_chat.GSM8K.parent)
    done = gfcr(*shlex.split(command), *more, "--json", cwd=where)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["updates"] == 2 and result["tokens"]["remainder"] == 0
    updates = [m for m in _metrics(where / result["folder"]) if "train/grad_norm" in m]
    assert any(m["train/grad_norm"] > 0 for m in updates)
    assert max(m["train/logprob_gap"] for m in updates) < 1e-4, "what is trained on was sampled"
    rows = [
        row
        for file in (where / result["folder"]).glob("rollouts/*.parquet")
        for row in pq.read_table(file).to_pylist()
    ]
    assert {row["reward"] for row in rows} == {0.0, 1.0}, "some answers are right, and not all"
    for row in rows:
        right = row["answer"].split("\n")[-1]
        assert row["completion"].endswith(f"\n{right}") == bool(row["reward"])


def _metrics(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["metrics"] for line in lines]
