"""Trains a draft model on its verifier's distributions, in a process beside the run.

`python -m gfcr.train.draft_learner DIR`: lines of JSON on stdin say what to do
(`gfcr.speculation.learner` writes them): a course first, then lessons to learn from and weights to
continue from. What is learnt goes to `DIR/learnt-N.*`, the `.json` last. Ends with its stdin.
"""

import json
import os
import random
import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

import numpy as np
import safetensors.torch
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from gfcr.speculation import lessons
from gfcr.speculation.learner import Course
from gfcr.speculation.lessons import Example
from gfcr.train.collate import bucketed
from gfcr.values.disk import write_atomic

_CLIP: Final = 1.0
_LEAST: Final = 1e-6
"""Floor of probabilities in logarithms and divisions."""


@final
@dataclass(frozen=True, kw_only=True)
class Minibatch:
    """Examples padded to one length; `BC` counts completion tokens of each, padded on the right."""

    inputs_BT: Tensor
    positions_BC: Tensor
    """Position of each completion token's logits, one before the token itself."""
    tokens_BC: Tensor
    weights_BC: Tensor
    """Weight of the example; 0 on padding."""
    temperature_B: Tensor
    ids_BCM: Tensor | None
    """The verifier's likeliest tokens; None if only samples were recorded."""
    probs_BCM: Tensor | None


def collate(examples: Sequence[Example], *, device: torch.device) -> Minibatch:
    """Pads examples. Right padding needs no mask, as causal attention never looks at it."""
    made = [len(e.tokens_T) - e.prompt_length for e in examples]
    laws = [e.law for e in examples if e.law is not None]
    whole = len(laws) == len(examples)

    def padded(rows: Sequence[np.ndarray]) -> Tensor:
        tensors = [torch.as_tensor(np.ascontiguousarray(r)) for r in rows]
        return pad_sequence(tensors, batch_first=True).to(device)

    return Minibatch(
        inputs_BT=padded([e.tokens_T.astype(np.int64) for e in examples]),
        positions_BC=padded(
            [np.arange(e.prompt_length - 1, len(e.tokens_T) - 1) for e in examples]
        ),
        tokens_BC=padded([e.tokens_T[e.prompt_length :].astype(np.int64) for e in examples]),
        weights_BC=padded(
            [np.full(c, e.weight, np.float32) for e, c in zip(examples, made, strict=True)]
        ),
        temperature_B=torch.tensor([e.temperature for e in examples], device=device),
        ids_BCM=padded([law.ids_TM.astype(np.int64) for law in laws]) if whole else None,
        probs_BCM=padded([law.probs_TM for law in laws]) if whole else None,
    )


def divergence(model: torch.nn.Module, batch: Minibatch, *, rejected: float) -> Tensor:
    """Weighted mean over tokens of the forward divergence from the verifier, in nats.

    With p the verifier's distribution as recorded and q the draft's, at the temperature sampled at:
    KL(p || q), where all tokens that p's record lacks count as one. Without records it is the
    cross-entropy -ln q(token): the same gradient in expectation, with more noise.

    Each token's term is weighted by a + rejected (1 - a), where a = sum min(p, q) is the
    probability that a draft there is accepted: the expectation of a weight 1 on accepted and
    `rejected` on rejected drafts, without their noise. Nothing flows into p or a.
    """
    logq_BCV = _log_probs(model, batch)
    if batch.ids_BCM is None or batch.probs_BCM is None:
        terms_BC = -logq_BCV.gather(-1, batch.tokens_BC[..., None])[..., 0]
        weights_BC = batch.weights_BC
    else:
        p_BCM, p_rest_BC = batch.probs_BCM, _rest(batch.probs_BCM)
        logq_BCM = logq_BCV.gather(-1, batch.ids_BCM)
        q_BCM = logq_BCM.exp()
        q_rest_BC = _rest(q_BCM)
        logp_BCM = p_BCM.clamp_min(_LEAST).log()
        terms_BC = (p_BCM * (logp_BCM - logq_BCM)).sum(-1)
        terms_BC = terms_BC + p_rest_BC * (p_rest_BC.log() - q_rest_BC.log())
        accepted_BC = torch.minimum(p_BCM, q_BCM).sum(-1) + torch.minimum(p_rest_BC, q_rest_BC)
        accepted_BC = accepted_BC.detach().clamp(0.0, 1.0)
        weights_BC = batch.weights_BC * (accepted_BC + rejected * (1.0 - accepted_BC))
    return (weights_BC * terms_BC).sum() / batch.weights_BC.sum().clamp_min(_LEAST)


def _log_probs(model: torch.nn.Module, batch: Minibatch) -> Tensor:
    logits_BTV = model(input_ids=batch.inputs_BT, use_cache=False).logits
    index = batch.positions_BC[..., None].expand(-1, -1, logits_BTV.shape[-1])
    logits_BCV = logits_BTV.gather(1, index).float() / batch.temperature_B[:, None, None]
    return logits_BCV.log_softmax(-1)


def _rest(p_BCM: Tensor) -> Tensor:
    """Returns the probability of all tokens that are not listed."""
    # Where the listed tokens have it all, rounding can leave a rest below 0.
    return (1.0 - p_BCM.sum(-1)).clamp_min(_LEAST)


@final
class Student:
    """A draft model in training: its weights, its optimizer, and the newest examples."""

    def __init__(self, course: Course) -> None:
        import transformers

        library: Any = transformers  # partially typed
        library.utils.logging.disable_progress_bar()
        device = "cuda" if torch.cuda.is_available() else "cpu"
        loader = library.AutoModelForCausalLM
        self.model: Any = loader.from_pretrained(course.model, dtype=torch.float32).to(device)
        self._course = course
        self._rng = random.Random(course.seed)
        self._pool: deque[Example] = deque()
        self._optimizer = self._fresh_optimizer()

    def add(self, examples: Sequence[Example]) -> None:
        """Adds examples to the pool; the oldest leave it."""
        self._pool.extend(e for e in examples if len(e.tokens_T) > e.prompt_length)
        surplus = sum(len(e.tokens_T) for e in self._pool) - self._course.pool
        while surplus > 0 and len(self._pool) > 1:
            surplus -= len(self._pool.popleft().tokens_T)

    def learn(self) -> dict[str, Any]:
        """Trains one round on the pool; returns mean loss, tokens and seconds."""
        begun, losses, tokens = time.perf_counter(), list[float](), 0
        self.model.train()
        for examples in self._minibatches():
            batch = collate(examples, device=self.model.device)
            loss = divergence(self.model, batch, rejected=self._course.rejected)
            if not bool(loss.isfinite()):
                raise FloatingPointError(f"the loss of the draft model is {loss.item()}")
            loss.backward()  # pyright: ignore[reportUnknownMemberType]
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), _CLIP)
            self._optimizer.step()
            self._optimizer.zero_grad()
            losses.append(loss.item())
            tokens += int((batch.weights_BC > 0).sum())
        return {
            "loss": sum(losses) / max(1, len(losses)),
            "tokens": tokens,
            "seconds": time.perf_counter() - begun,
        }

    def save(self, folder: Path, *, name: str) -> None:
        """Writes `name.safetensors`, with checkpoint names, and `name.optimizer`."""
        library: Any = safetensors.torch  # partially typed
        library.save_file(self._tensors(), folder / f"{name}.safetensors")
        torch.save(self._optimizer.state_dict(), folder / f"{name}.optimizer")

    def continue_from(self, weights: str | None, *, optimizer: str | None) -> None:
        """Loads weights (None: the original ones) and, if given, the optimizer's state."""
        library: Any = safetensors.torch  # partially typed
        files = [Path(weights)] if weights else Path(self._course.model).glob("*.safetensors")
        held = {name: t for file in files for name, t in library.load_file(file).items()}
        self.model.load_state_dict(held, strict=False)  # a tied output head is not in the file
        self._optimizer = self._fresh_optimizer()
        if optimizer:
            # It is read as data, since a pickle would run what the file says.
            self._optimizer.load_state_dict(torch.load(optimizer, weights_only=True))

    def _fresh_optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            self.model.parameters(), lr=self._course.lr, betas=(0.9, 0.99), weight_decay=0.0
        )

    def _tensors(self) -> dict[str, torch.Tensor]:
        tied = bool(self.model.config.tie_word_embeddings)
        held: Mapping[str, torch.Tensor] = self.model.state_dict()
        named = {n: t for n, t in held.items() if not (tied and n == "lm_head.weight")}
        return {name: t.detach().cpu().contiguous() for name, t in named.items()}

    def _minibatches(self) -> Iterator[list[Example]]:
        """Yields a round's batches: the pool in new orders, with like lengths together."""
        left, most = self._course.steps, self._course.batch_tokens
        while left and self._pool:
            examples = self._rng.sample(self._pool, len(self._pool))
            batches = list(bucketed(examples, length=lambda e: len(e.tokens_T), most=most))
            self._rng.shuffle(batches)
            yield from batches[:left]
            left -= min(left, len(batches))


def _messages(handle: int) -> Iterator[list[dict[str, Any]]]:
    """Yields all messages that have arrived, waiting for at least one."""
    rest = b""
    while said := os.read(handle, 1 << 16):
        *lines, rest = (rest + said).split(b"\n")
        if lines:
            yield [json.loads(line) for line in lines]


def _serve(folder: Path, *, handle: int) -> None:
    student: Student | None = None
    for messages in _messages(handle):
        newest = 0
        for message in messages:
            if "course" in message:
                student = Student(Course(**message["course"]))
                continue
            assert student is not None, "the course comes first"
            if "weights" in message:
                newest = 0
                student.continue_from(message["weights"], optimizer=message["optimizer"])
            else:
                newest = message["learn"]
                lesson = Path(message["lesson"])
                student.add(lessons.load(lesson))
                lesson.unlink()
        if newest and student is not None:
            _answer(student, folder=folder, number=newest)


def _answer(student: Student, *, folder: Path, number: int) -> None:
    outcome = student.learn()
    student.save(folder, name=f"learnt-{number}")
    # It is renamed when it is whole, as whoever waits for the name reads it at once.
    write_atomic(folder / f"learnt-{number}.json", json.dumps(outcome))


def main() -> None:
    """Serves one run; see the module."""
    os.nice(10)  # the run's own processes come first
    _serve(Path(sys.argv[1]), handle=sys.stdin.fileno())


if __name__ == "__main__":
    main()
