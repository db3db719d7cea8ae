"""Inputs of a demo model's supervised training: a source of demonstrations, and a recipe."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import ClassVar, final


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """A prompt and one way to answer it, as text without an end-of-sequence token."""

    prompt: str
    completion: str


class Demonstrations(ABC):
    """An endless stream of demonstrations. Its fields are all it depends on."""

    alphabet: ClassVar[str]
    """Every character that prompts and completions may hold."""

    @abstractmethod
    def stream(self, *, seed: int) -> Iterator[Demonstration]:
        """Yields demonstrations of training problems, the same for the same seed."""


@final
@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that a demo model depends on: data, shape and schedule."""

    name: str
    about: str
    demonstrations: Demonstrations
    hidden: int = 128
    layers: int = 4
    heads: int = 2
    head_dim: int = 64
    mlp: int = 512
    max_positions: int = 512
    steps: int
    """Optimizer steps. Not seconds: a slow machine makes the same model."""
    batch_tokens: int = 2048
    lr: float = 4e-3
    warmup: int = 30
    seed: int = 0
    seconds: int
    """Rough duration on two idle cores, for the progress message only."""
    revision: int = 1
    """Raised when the code changes what the fields above produce."""

    @property
    def parameters(self) -> int:
        """Number of parameters of layers and embeddings, without norms."""
        layer = self.hidden * (4 * self.heads * self.head_dim + 3 * self.mlp)
        return self.layers * layer + self.hidden * len(self.demonstrations.alphabet)

    @property
    def key(self) -> str:
        """Name and hash of everything that shapes the model: the name of its cache folder."""
        shaping = asdict(self) | {"source": type(self.demonstrations).__name__}
        for cosmetic in ("about", "seconds"):
            del shaping[cosmetic]
        digest = hashlib.sha256(json.dumps(shaping, sort_keys=True).encode()).hexdigest()
        return f"{self.name}-{digest[:12]}"


def draft(name: str, *, about: str, demonstrations: Demonstrations) -> Recipe:
    """Returns the recipe of a small draft model."""
    shape = {"hidden": 64, "layers": 2, "heads": 1, "mlp": 256, "steps": 400, "seconds": 15}
    return Recipe(name=name, about=about, demonstrations=demonstrations, **shape)
