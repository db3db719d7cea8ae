"""Demo models: made once, the same every time, loadable by transformers and vLLM. About 80 s.

Recipes of a few steps stand in for the real ones, which the experiments use.
"""

import dataclasses
import json
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gfcr import models
from gfcr.errors import ConfigError, GfcrError, TaskError
from gfcr.tasks.chain_sum import ALPHABET, ChainSum
from gfcr.tasks.codec import CharCodec, HfCodec
from gfcr.tasks.demos import chain_sum
from gfcr.tasks.demos.base import Recipe
from gfcr.tasks.demos.training import steps


def tiny(**changes: Any) -> Recipe:
    small = {"steps": 4, "batch_tokens": 512, "layers": 2, "warmup": 2}
    return dataclasses.replace(models.recipe("demo"), **{"name": "tiny", **small, **changes})


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("cache")
    patch = pytest.MonkeyPatch()
    patch.setenv("GFCR_CACHE", str(folder))
    patch.setitem(models.DEMOS, "tiny", "chain_sum")
    patch.setattr(chain_sum, "RECIPES", (*chain_sum.RECIPES, tiny()))
    yield folder
    patch.undo()


@pytest.fixture(scope="module")
def folder(cache: Path) -> Path:
    return models.resolve("tiny")


def weights(folder: Path) -> dict[str, Any]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def test_a_model_is_made_once_and_leaves_nothing_else(folder: Path, cache: Path) -> None:
    made = (folder / "model.safetensors").stat().st_mtime_ns
    assert models.resolve("tiny") == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == made
    assert {p.name for p in (cache / "models").iterdir()} == {folder.name, f"{folder.name}.lock"}
    card = json.loads((folder / "gfcr_demo.json").read_text())
    assert card["training"]["steps"] == 4
    assert card["training"]["loss"] < 3.2  # nats; a uniform guess over 20 tokens is 3.0


@pytest.mark.whole
def test_the_same_recipe_makes_the_same_weights(folder: Path, tmp_path: Path) -> None:
    import torch

    list(steps(tiny(), folder=tmp_path))
    first, again = weights(folder), weights(tmp_path)
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_what_shapes_the_model_changes_its_folder_and_nothing_else_does() -> None:
    assert tiny(seed=1).key != tiny().key != tiny(steps=5).key
    assert tiny(about="another word", seconds=1).key == tiny().key


def test_the_tokenizer_agrees_with_the_character_codec(folder: Path) -> None:
    saved, chars = HfCodec(folder), CharCodec(alphabet=ALPHABET)
    text = ALPHABET + "12-4=8,"
    assert saved.prompt(text) == saved.encode(text) == chars.encode(text)
    assert saved.decode((*saved.encode(text), saved.eos_id)) == text
    assert saved.eos_id == chars.eos_id
    with pytest.raises(TaskError, match="'a' 'é'"):
        saved.prompt("1+aé=")


def test_the_codec_uses_a_chat_template_where_there_is_one(folder: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}={% endfor %}"
    tokenizer.save_pretrained(tmp_path)
    codec = HfCodec(tmp_path)
    assert codec.prompt("1+2") == codec.encode("1+2=")


@pytest.mark.whole
def test_transformers_and_vllm_agree_on_the_model(folder: Path) -> None:
    script = Path(__file__).with_name("demo_model_script.py")
    done = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout.split()[-1]) < 1e-3


@pytest.mark.whole
def test_two_processes_at_once_make_one_model(cache: Path) -> None:
    recipe = tiny(seed=7)
    (cache / "models" / f".{recipe.key}-killed").mkdir(parents=True)
    context = multiprocessing.get_context("spawn")
    with context.Pool(2) as pool:
        found = pool.map(models._demo, [recipe, recipe])
    assert found[0] == found[1] == cache / "models" / recipe.key
    assert not [p for p in (cache / "models").iterdir() if p.name.startswith(".")]
    assert HfCodec(found[0]).eos_id == 1


@pytest.mark.whole
def test_a_failed_training_says_why_and_leaves_no_model(cache: Path) -> None:
    recipe = tiny(heads=0)
    with pytest.raises(GfcrError, match=r"(?s)making the model 'tiny' failed.*Error"):
        models._demo(recipe)
    assert [p.name for p in (cache / "models").glob(f"*{recipe.key}*")] == [f"{recipe.key}.lock"]


def test_what_is_no_model_is_refused_with_what_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model=dmo .*Did you mean 'demo'.*demo-tail"):
        models.resolve("dmo")
    with pytest.raises(ConfigError, match=r"no config\.json"):
        models.resolve(tmp_path)
    with pytest.raises(ConfigError, match="neither a folder nor a known model"):
        models.resolve(tmp_path / "none")


def test_a_hub_name_offline_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="model=someone/some-model is no folder here"):
        models.resolve("someone/some-model")


def test_the_demo_recipe_fits_its_task() -> None:
    for recipe in map(models.recipe, models.DEMOS):
        longest = max(len(d.prompt + d.completion) for d in _first(recipe, num=2000))
        assert longest + 1 <= recipe.max_positions
    assert CharCodec(alphabet=ChainSum.alphabet).vocab_size == 20


def _first(recipe: Recipe, *, num: int) -> list[Any]:
    stream = recipe.demonstrations.stream(seed=recipe.seed)
    return [next(stream) for _ in range(num)]
