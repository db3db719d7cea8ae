"""Drafters that the engine brings along: what vLLM is told, and what is refused before it is."""

import json
from pathlib import Path

import pytest

from gfcr import registry
from gfcr.errors import ConfigError, GfcrError
from gfcr.speculation.base import BuiltIn, Target
from gfcr.speculation.draft_model import DraftModel
from gfcr.speculation.ngram import Ngram
from gfcr.speculation.vllm_method import VllmMethod
from tests.cases import over


def model(folder: Path, *, vocab: int = 20, tokens: dict[str, int] | None = None) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"vocab_size": vocab}))
    (folder / "model.safetensors").write_bytes(b"")
    words = tokens or {"a": 0, "b": 1}
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": words}}))
    return folder


def target(folder: Path | None, *, max_length: int = 64) -> Target:
    return Target(folder=folder, vocab=20, max_length=max_length)


@over("name", ["ngram", "suffix", "mtp", "vllm_method"])
def test_the_engine_is_told_the_longest_draft(name: str) -> None:
    drafter = registry.build("drafter", {"name": name, "draft_length": 5})
    assert isinstance(drafter, BuiltIn) and drafter.max_draft == 5
    assert drafter.settings()["num_speculative_tokens"] == 5


@over("length", [64, 100])
def test_drafts_must_fit_the_context(length: int) -> None:
    with pytest.raises(ConfigError, match=f"{length} draft tokens.*context of 64.*give 1 to 63"):
        Ngram(draft_length=length).check(target(None))


def test_a_fitting_draft_model_passes(tmp_path: Path) -> None:
    draft = DraftModel(model=str(model(tmp_path / "draft")))
    draft.check(target(model(tmp_path / "policy")))


def test_missing_draft_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no draft weights.*nowhere"):
        DraftModel(model=str(tmp_path / "nowhere")).check(target(model(tmp_path / "policy")))


def test_another_vocabulary_is_refused(tmp_path: Path) -> None:
    draft = DraftModel(model=str(model(tmp_path / "draft", vocab=32)))
    with pytest.raises(ConfigError, match=r"vocabulary of 32 tokens.*has 20"):
        draft.check(target(tmp_path / "t"))
    (tmp_path / "draft" / "config.json").write_text('{"vocab_')
    with pytest.raises(GfcrError, match=r"config\.json' is not JSON"):
        draft.check(target(model(tmp_path / "policy")))


def test_another_tokenizer_of_the_same_size_is_refused(tmp_path: Path) -> None:
    draft = DraftModel(model=str(model(tmp_path / "draft", tokens={"b": 0, "a": 1})))
    with pytest.raises(ConfigError, match=r"another tokenizer.*'a' is 1 there and 0 here"):
        draft.check(target(model(tmp_path / "policy")))


@over("more", ["draft", "policy"])
def test_a_tokenizer_with_a_token_more_is_refused(more: str, tmp_path: Path) -> None:
    folders = {
        name: model(tmp_path / name, tokens={"a": 0, "b": 1} | ({"c": 2} if name == more else {}))
        for name in ("draft", "policy")
    }
    there, here = ("2", "None") if more == "draft" else ("None", "2")
    with pytest.raises(ConfigError, match=f"tokenizer.*'c' is {there} there and {here} here"):
        DraftModel(model=str(folders["draft"])).check(target(folders["policy"]))


def test_a_demo_draft_model_is_fetched_by_name(tmp_path: Path) -> None:
    draft = DraftModel(model="by-name")
    draft.fetch({"by-name": model(tmp_path / "draft")}.__getitem__)
    draft.check(target(model(tmp_path / "policy")))
    assert draft.settings()["model"] == str(tmp_path / "draft")


@over("sample", ["greedy", "probabilistic"])
def test_only_probabilistic_drafts_are_sampled(sample: str) -> None:
    assert DraftModel(model="x", sample=sample).sampled == (sample == "probabilistic")


def test_wrong_values_are_named() -> None:
    with pytest.raises(ConfigError, match=r"sample='warm'.*'greedy' or 'probabilistic'"):
        DraftModel(model="x", sample="warm")
    with pytest.raises(ConfigError, match=r"shortest=4, longest=2"):
        Ngram(shortest=4, longest=2)
    with pytest.raises(ConfigError, match=r"medusas.*Did you mean 'medusa'"):
        registry.build("drafter", {"name": "vllm_method", "method": "medusas"})


@over(
    ("key", "value"),
    [
        ("rejection_sample_method", "synthetic"),
        ("rejection_sample_method", "block"),
        ("rejection_sample_method", "fly"),
        ("synthetic_acceptance_length", 2.0),
        ("synthetic_acceptance_rates", [0.9]),
    ],
)
def test_no_option_replaces_the_exact_rule_of_acceptance(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=rf"options\.{key}=.*Leave it out"):
        VllmMethod(options={key: value})


def test_the_exact_rule_may_be_named_and_own_keys_win() -> None:
    named = VllmMethod(options={"rejection_sample_method": "standard", "method": "fly"})
    assert named.settings()["method"] == "eagle"
    with pytest.raises(ConfigError, match="unknown method 'fly'"):
        VllmMethod(method="fly")
