"""The view of the run that parts are given."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np

from gfcr.handles.jobs import Job
from gfcr.types import Floats, Group, Ints, Prompt, Sampling

TURNS: Final = "gfcr.turns"
"""Key in a prompt's `meta` of the conversation that it is, where it is one."""
TOOLS: Final = "gfcr.tools"
"""Key in a prompt's `meta` of the tools that the conversation offers, where it offers any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What a policy says of each token of a sequence after the first, in nats.

    K is the number of likeliest tokens that were asked for, or of all where there are fewer.
    """

    logprobs_T: Floats
    top_tokens_TK: Ints
    """The likeliest tokens in the place of each, given those before it, in descending order."""
    top_logprobs_TK: Floats

    @classmethod
    def parted(cls, tokens_TC: Any, *, logprobs_TC: Any) -> "Scored":
        """Makes it of columns: the tokens that stand in their places, then the likeliest ones."""
        return cls(
            logprobs_T=np.asarray(logprobs_TC[:, 0], np.float32),
            top_tokens_TK=np.asarray(tokens_TC[:, 1:], np.int32),
            top_logprobs_TK=np.asarray(logprobs_TC[:, 1:], np.float32),
        )


class View(Protocol):
    """What a part may see of the run, and the few things that it may ask for."""

    step: int
    """The number of the update that the batch is for, from 0."""
    version: int
    """The policy version in the engine at this moment; 0 in an evaluation."""
    round: int
    """How many times groups were begun for the batch so far."""
    target: int
    """The number of accepted groups that fill the batch."""
    group_size: int
    sampling: Sampling
    room: int
    """The most tokens that a prompt may have, so that a rollout fits the engine's context."""

    @property
    def num_prompts(self) -> int:
        """The number of training prompts, which are drawn once an epoch each.

        In an evaluation that of the held-out ones.
        """
        ...

    @property
    def groups(self) -> Sequence[Group]:
        """The groups completed so far in this batch, accepted and rejected."""
        ...

    @property
    def num_accepted(self) -> int:
        """The number of groups accepted so far."""
        ...

    @property
    def running(self) -> int:
        """The number of trajectories in flight."""
        ...

    def draw(self, num: int) -> list[Prompt]:
        """Takes the next prompts of the paired stream; each is used once an epoch.

        In an evaluation those are the held-out ones, in order.
        """
        ...

    def prompt(
        self,
        text: str,
        *,
        answer: str = "",
        id: str | None = None,
        meta: Mapping[str, object] | None = None,
        tokens: Sequence[int] = (),
    ) -> Prompt:
        """Makes a prompt, encoded as the task encodes its own: mutated, hinted, invented.

        It may then be selected, opened or trained under like one that was drawn. Without an `id`
        its text and answer name it. `tokens` are taken as they are in the place of the text's, such
        as a history with what was sampled in it, which encoded anew might be others. With the
        `meta` of a prompt that is a conversation, the text is what its user says last there.
        """
        ...

    def at_level(self, level: int, *, seed: int) -> Prompt:
        """Makes a new problem of the run's task, the harder the higher its level, from 0.

        Raises:
            TaskError: the task has no levels.
        """
        ...

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of problems that the run's task can be asked for."""
        ...

    def ask(self, kind: str, *, references: Sequence[Prompt] = ()) -> Prompt:
        """Makes a prompt that asks for a problem of a kind, with other problems as examples.

        `Scratch.pose` says what becomes of an answer.

        Raises:
            TaskError: the task cannot be asked for problems, or not with these references.
        """
        ...

    def recorded(self, folder: str) -> list[Group]:
        """Returns groups that another run recorded in its folder, to be recalled like own ones.

        Their rollouts are not verified, billed or counted again; a Replay part holds them like its
        own. Each prompt must be, or become, a training prompt of this run.

        Raises:
            PartError: a prompt is held out, or another one under the same id.
        """
        ...

    def put_back(self, prompts: Sequence[Prompt]) -> None:
        """Gives prompts back to the stream: they are drawn next, in this order."""
        ...

    def job(self, prompt: Prompt, *, num_samples: int | None = None) -> Job:
        """Makes a job with the run's group size and sampling."""
        ...

    def rng(self, *key: str | int) -> np.random.Generator:
        """A generator seeded by (experiment seed, step, key): the same in every strategy."""
        ...

    def score(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        """Returns the log-prob of each token after the first, `len(sequence) - 1` a sequence.

        In nats, under the policy now, at the run's temperature; `top_p` and its like do not count.
        """
        ...

    def score_top(self, sequences: Sequence[Sequence[int]], *, top: int) -> list[Scored]:
        """Returns them with the `top` likeliest tokens of each place, for distillation."""
        ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Encodes text that continues a sequence."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Decodes completion tokens."""
        ...
