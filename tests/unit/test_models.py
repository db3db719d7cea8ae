"""Demo models that come with gfcr, and what is said while another is made."""

import hashlib
import json
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
from huggingface_hub.utils import filter_repo_objects

from gfcr import models
from gfcr.errors import ConfigError
from gfcr.tasks.demos.training import pace

SHIPPED = sorted(folder.name for folder in models.SHIPPED.iterdir())


def test_a_shipped_model_is_of_its_recipe_and_complete() -> None:
    assert SHIPPED == ["demo", "demo-draft", "demo-draft-generic"]
    for name in SHIPPED:
        folder = models.resolve(name)
        card = json.loads((folder / "gfcr_demo.json").read_text())
        weights = (folder / "model.safetensors").read_bytes()
        assert card["key"] == models.recipe(name).key, f"run scripts/demo_weights.py {name}"
        if folder.parent == models.SHIPPED:  # not with --perturb
            assert card["sha256"] == hashlib.sha256(weights).hexdigest()
        assert len(weights) > 4 * models.recipe(name).parameters
        assert card["training"]["curve"][0] > 2 > card["training"]["curve"][-1]
        assert {"python", "torch", "transformers"} <= card["versions"].keys()


def test_a_shipped_model_is_found_before_one_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GFCR_CACHE", str(tmp_path))
    made = tmp_path / "models" / models.recipe("demo").key
    made.mkdir(parents=True)
    assert models.resolve("demo") == models.here("demo") != made
    assert models.here("demo-tail") is None


def test_a_folder_of_models_that_lacks_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GFCR_DEMO_MODELS", str(tmp_path))
    with pytest.raises(ConfigError, match=r"GFCR_DEMO_MODELS=.*there is no demo"):
        models.resolve("demo")
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1")
    with pytest.raises(
        ConfigError, match=r"model\.safetensors is no file of weights .*git lfs pull"
    ):
        models.here(tmp_path)


def test_weights_that_a_hub_model_holds_twice_are_downloaded_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = ["config.json", "model-00001-of-00002.safetensors", "tokenizer.model"]
    others = ["consolidated.safetensors", "original/params.json", "model.py", "pytorch_model.bin"]
    got: list[str] = []

    def download(name: str, **patterns: Any) -> str:
        got.extend(filter_repo_objects([*read, *others], **patterns))
        return "cache"

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert models._from_hub("owner/name") == Path("cache") and got == read


def test_the_bar_says_what_is_slow_when_it_is() -> None:
    recipe = models.recipe("demo-30m")
    usual, slow = (pace(recipe, step=10, seconds=10 * s) for s in (2, 20))
    assert usual == recipe.name and slow.startswith("demo-30m: 87 min on a processor without bf16")
    assert pace(recipe, step=1, seconds=100) == recipe.name, "too early to tell"
