"""Drafters with weights of their own, whose folder must exist and fit the target model."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gfcr.errors import ConfigError
from gfcr.process.tokenizer import read_json
from gfcr.speculation.base import BuiltIn, Target
from gfcr.values.plain import is_mapping
from gfcr.values.ranges import DraftLength, File


@dataclass(kw_only=True)
class DraftWeights(BuiltIn):
    """A method whose draft tokens come from a small network."""

    model: File
    """Draft model: its folder, a demo model by name, or a Hub id."""
    draft_length: DraftLength = 3
    """Tokens drafted for one verification (k)."""

    def __post_init__(self) -> None:
        self._folder = Path(self.model).expanduser()

    @property
    def folder(self) -> Path:
        """Folder of the weights, after `fetch` resolved the name."""
        return self._folder

    def fetch(self, resolve: Callable[[str], Path]) -> None:
        self._folder = resolve(self.model)

    def check(self, target: Target) -> None:
        super().check(target)
        config = self.folder / "config.json"
        if not config.is_file() or not any(self.folder.glob("*.safetensors")):
            raise ConfigError(
                f"drafter.model={self.model}: no draft weights: {self.folder} lacks config.json or "
                "*.safetensors. Give the folder that save_pretrained wrote."
            )
        vocab = int(read_json(config).get("vocab_size", target.vocab))
        if vocab != target.vocab:
            raise ConfigError(
                f"drafter.model={self.model} has a vocabulary of {vocab} tokens, the model "
                f"{target.folder} has {target.vocab}: a draft model must share its target's "
                "tokenizer."
            )
        self._check_tokenizer(target)

    def _check_tokenizer(self, target: Target) -> None:
        if target.folder is None:
            return
        ours, theirs = (_vocabulary(f) for f in (self.folder, target.folder))
        if ours and theirs and ours != theirs:
            token = next(t for t in [*theirs, *ours] if ours.get(t) != theirs.get(t))
            raise ConfigError(
                f"drafter.model={self.model} has another tokenizer than {target.folder}: "
                f"{token!r} is {ours.get(token)} there and {theirs.get(token)} here. Train the "
                "draft model with its target's tokenizer."
            )


def _vocabulary(folder: Path) -> dict[str, int]:
    """Returns token -> id of a fast tokenizer; empty if the folder holds none."""
    vocab: Any = read_json(folder / "tokenizer.json").get("model", {}).get("vocab", {})
    if is_mapping(vocab):
        return dict(vocab)
    # Unigram models list pairs of token and score, in order of id.
    return {token: i for i, (token, _) in enumerate(vocab)}
