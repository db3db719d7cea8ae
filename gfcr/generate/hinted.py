"""Answers under a hint: part of a solution, told in the prompt or already written down."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import ClassVar, Final, Literal, final

from gfcr.errors import ConfigError
from gfcr.stages import Generate, Session, Trajectory
from gfcr.types import Prompt
from gfcr.values.ranges import Text, Word
from gfcr.values.templates import filled, holding

HINT: Final = "hint"
"""Note of a job, and of a rollout: share of the solution that is given away."""


@final
@dataclass(kw_only=True)
class Hinted(Generate):
    """Samples like `sample`, and where a job asks for it, under a hint.

    The hint is the first part of the solution, as large as the job's note `hint` says, in (0, 1];
    the control `scaffold` asks for it. With `where: prompt` it stands in the prompt, as `template`
    has it, and what comes of it is trained as an answer to the plain prompt, its log-probs taken
    again under that. With `where: completion` it is the beginning of the answer, out of the loss.
    Such rollouts have the share in their notes, as `hint`.

    Where a prompt with its hint would not fit the engine's context, or the hint leaves no room to
    answer under the cap, it is asked without.
    The solution is the prompt's column `column`, of the task's data, or its answer. Hurts where
    the hint is the answer: what is trained then is to guess it.
    """

    paper: ClassVar[str] = "2510.19807"
    cell: ClassVar[str] = "G4.3"
    origin: ClassVar[str] = "ours"
    resumes: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = (HINT,)
    tokenwise: ClassVar[bool] = True

    column: Word = "answer"
    where: Literal["prompt", "completion"] = "prompt"
    template: Text = "{hint},{prompt}"
    """Suits the demo; for models of prose say `Hint: {hint}` and a line break."""
    too_long: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        holding(self.template, "hint", "prompt", where="hinted.template")

    def check(self, encode: Callable[[str], Sequence[int]]) -> None:
        encode(self.template.replace("{hint}", "").replace("{prompt}", ""))

    @property
    def reads_columns(self) -> Sequence[str]:
        return (self.column,)

    def metrics(self) -> Mapping[str, float]:
        """Rollouts so far without their hint, as it would not fit."""
        return {"too_long": float(self.too_long)}

    async def run(self, session: Session) -> None:
        share = float(session.job.notes.get(HINT, 0.0))
        indices = range(session.job.num_samples)
        opened = [self._open(i, share=share, session=session) for i in indices]
        await session.gather(*(trajectory.sample() for trajectory in opened))

    def _open(self, index: int, *, share: float, session: Session) -> Trajectory:
        plain, resume = session.job.prompt, session.job.resume
        # A resumed trajectory begins with tokens that had their prompt, and gets no other one.
        if not share or index < len(resume):
            return session.open(index)
        hint = self._hint(plain, share=share, session=session)
        if self.where == "prompt":
            told = filled(self.template, hint=session.view.decode(hint), prompt=plain.text)
            prompt = session.view.prompt(told, answer=plain.answer, meta=plain.meta)
            if len(prompt.tokens) > session.view.room:
                self.too_long += 1
                return session.open(index)
            trajectory = session.open(index, prompt=prompt, train_under=plain)
        else:
            trajectory = session.open(index)
            if len(hint) >= session.job.sampling.max_tokens:
                self.too_long += 1
                return trajectory
            trajectory.append(hint)
        trajectory.notes[HINT] = share
        return trajectory

    def _hint(self, prompt: Prompt, *, share: float, session: Session) -> Sequence[int]:
        given = prompt.columns.get(self.column)
        if given is None:
            raise ConfigError(
                f"hinted.column={self.column!r}: prompt {prompt.id!r} has no such column. It has "
                f"{', '.join(prompt.columns) or 'none'}."
            )
        tokens = session.view.encode(str(given))
        # Float noise in the product must not give one token more away.
        return tokens[: ceil(share * len(tokens) - 1e-9)]
