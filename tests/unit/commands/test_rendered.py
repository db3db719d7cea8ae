"""`gfcr rollouts --rendered`: prompts with the special tokens that went into the policy."""

import json
import shutil
from pathlib import Path
from typing import Any

from gfcr import models
from gfcr.tasks.codec import SPECIAL_TOKENS, HfCodec
from gfcr.testing import factories as make
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder
from gfcr.train import sft
from gfcr.types import Cost, Prompt, RolloutBatch
from tests.commands import gfcr

ALPHABET = "0123456789+-=,?#"
MARK = "<eos>"
END = SPECIAL_TOKENS.index(MARK)
TEMPLATE = MARK + "{{ messages[0].content }}=" + MARK


def _model(folder: Path) -> Path:
    tokenizer = sft.char_tokenizer(ALPHABET)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text("{}")
    return folder


def _run(folder: Path, *, tokens: tuple[int, ...], spec: dict[str, Any]) -> Path:
    card = RunCard(run_id="r", study="s", arm="a", seed=0, spec=spec)
    asked = Prompt(id="p", tokens=tokens, text="1+2", answer="3")
    groups = (make.group([1.0, 0.0], of=asked),)
    held = {"samples": (), "groups": groups, "aborted": (), "metrics": {}}
    records = RunFolder(folder)
    records.create(card)
    records.add_rollouts(RolloutBatch(step=0, version=0, cost=Cost(), **held), spell=str)
    return folder


def _prompts(run: Path, *words: str) -> set[str]:
    done = gfcr("rollouts", run, *words, "--json")
    assert done.returncode == 0, done.stderr
    return {each["prompt"] for each in json.loads(done.stdout)["rollouts"]}


def test_a_prompt_is_shown_as_its_template_made_it(tmp_path: Path) -> None:
    model = _model(tmp_path / "model")
    tokens = HfCodec(model).prompt("1+2")
    spec = {"model": str(model), "engine": {"name": "vllm"}}
    run = _run(tmp_path / "run", tokens=tokens, spec=spec)
    assert _prompts(run) == {"1+2"}
    assert _prompts(run, "--rendered") == {f"{MARK}1+2={MARK}"}
    shutil.rmtree(model)
    assert _prompts(run, "--rendered") == {"1+2"}
    lines = gfcr("rollouts", run, "--rendered").stdout.splitlines()
    (said,) = [line for line in lines if "without" in line]
    assert said.startswith("prompts are without their special tokens: ") and str(model) in said
    assert json.loads(gfcr("rollouts", run, "--rendered", "--json").stdout)["note"] == said


def test_an_engine_without_a_model_has_characters(tmp_path: Path) -> None:
    engine = {"name": "fake", "alphabet": ALPHABET}
    run = _run(tmp_path / "run", tokens=(END, 5, 6), spec={"model": "none", "engine": engine})
    assert _prompts(run, "--rendered") == {f"{MARK}12"}


def test_a_demo_model_is_found_by_its_name(tmp_path: Path) -> None:
    spec = {"model": "demo", "engine": {"name": "vllm"}}
    run = _run(tmp_path / "run", tokens=(1, 5, 6), spec=spec)
    (prompt,) = _prompts(run, "--rendered")
    assert prompt == "".join(HfCodec(models.resolve("demo")).pieces((1, 5, 6))) != "1+2"
