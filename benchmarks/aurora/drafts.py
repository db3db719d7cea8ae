"""The drafts that a stream meets, one after the other on one engine, and how they are made."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from benchmarks.rounds import weights
from gfcr.speculation.base import BuiltIn, Law, Row, Step
from gfcr.speculation.draft_model import small_model
from gfcr.speculation.learner import Course
from gfcr.speculation.lessons import Example
from gfcr.speculation.online import Online
from gfcr.tasks.base import Codec
from gfcr.tasks.demos.base import Demonstration, Demonstrations

if TYPE_CHECKING:
    import torch


@final
class Switch(BuiltIn):
    """Drafts of one architecture in turn on one engine: fixed weights, or an `Online` at work."""

    def __init__(self, folder: Path, *, draft_length: int, recorded: int = 16) -> None:
        self._folder, self._k, self._recorded = folder, draft_length, recorded
        self._put: Path | None = None
        self.online: Online | None = None
        self.seen: list[Example] | None = None
        """Where finished requests are kept, if anywhere."""

    @property
    def max_draft(self) -> int:
        """The draft length, which never changes."""
        return self._k

    @property
    def sampled(self) -> bool:
        """Drafts are sampled, not chosen."""
        return True

    @property
    def recorded(self) -> int:
        """Returns how many of the likeliest tokens are recorded, to learn from."""
        return self._recorded

    def settings(self) -> Mapping[str, Any]:
        """Says how vLLM drafts with a small model."""
        return small_model(self._folder, draft_length=self._k, sample="probabilistic")

    def begin(self, put: Path, *, online: Online | None = None) -> None:
        """Drafts with these weights from the next step on; `online` then takes over."""
        self._put, self.online = put, online

    def saw(self, step: Step) -> None:
        """Passes a step on to the draft that learns, if one does."""
        if self.online is not None:
            self.online.saw(step)

    def finished(self, row: Row, *, law: Law | None) -> None:
        """Passes a finished request on to the draft that learns, and keeps it where asked to."""
        if self.online is not None:
            self.online.finished(row, law=law)
        if self.seen is not None:
            length, t = row.prompt_length, row.sampling.temperature
            tokens_T = row.tokens_T.astype(np.int32)
            self.seen.append(
                Example(tokens_T=tokens_T, prompt_length=length, temperature=t, law=law)
            )

    def fresh_weights(self) -> "Iterable[tuple[str, torch.Tensor]] | None":
        """Returns the weights of the draft whose turn begins, else those that were learnt."""
        if self._put is not None:
            put, self._put = self._put, None
            return list(weights(put).items())
        return self.online.fresh_weights() if self.online is not None else None


def train_on(
    examples: Sequence[Example], *, model: Path, steps: int, lr: float, file: Path
) -> float:
    """Trains a model on examples, in this process, and writes its weights; returns the loss."""
    from gfcr.train.draft_learner import Student

    size = sum(len(e.tokens_T) for e in examples)
    course = Course(model=str(model), steps=steps, lr=lr, pool=size, rejected=1.0, threads=2)
    student = Student(course)
    student.add(examples)
    outcome = student.learn()
    student.save(file.parent, name=file.stem)
    return float(outcome["loss"])


def demonstrated(source: Demonstrations, *, codec: Codec, number: int) -> list[Example]:
    """Demonstrations as examples: samples without distributions."""
    return [_demonstrated(d, codec=codec) for d in islice(source.stream(seed=1), number)]


def folder_of(file: Path, *, like: Path, folder: Path) -> Path:
    """Makes a folder of a draft's weights, with all else from another draft's; returns it."""
    folder.mkdir()
    for other in like.iterdir():
        if other.suffix in (".json", ".txt"):
            shutil.copy(other, folder)
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    shutil.copy(file, folder / "model.safetensors")
    return folder


def untrained(model: Path, *, folder: Path, seed: int) -> Path:
    """Saves a model of the same shape and tokenizer that knows nothing; returns its folder."""
    import torch
    import transformers

    library: Any = transformers  # partially typed
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(seed)
    config = library.AutoConfig.from_pretrained(model)
    library.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    torch.set_rng_state(before)
    for file in model.glob("tokenizer*"):
        shutil.copy(file, folder)
    return folder


def _demonstrated(demonstration: Demonstration, *, codec: Codec) -> Example:
    prompt = codec.prompt(demonstration.prompt)
    tokens = [*prompt, *codec.encode(demonstration.completion), codec.eos_id]
    return Example(
        tokens_T=np.array(tokens, np.int32), prompt_length=len(prompt), temperature=1.0, law=None
    )
