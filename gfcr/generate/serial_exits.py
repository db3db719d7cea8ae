"""S-GRPO's serial groups: one thought, left early at several places."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, final

from annotated_types import Len

from gfcr.errors import ConfigError
from gfcr.generate._markers import begins
from gfcr.stages import Generate, Session, Trajectory
from gfcr.values.ranges import Count

EXIT: Final = "exit"
"""Note of a rollout: tokens of the thought that it was left after."""


@final
@dataclass(kw_only=True)
class SerialExits(Generate):
    """Samples a thought to its end, and an answer from `exits` places inside of it.

    Each of the job's samples is one thought. At places drawn uniformly from what precedes
    the `marker` of its own answer, `marker` is appended, out of the loss, and an answer of
    `answer_tokens` at most is sampled. What precedes an exit is generated once and shared. Each
    rollout has in its notes, as `exit`, after how many tokens the thought was left; the filter
    `exit_reward` pays by their order.

    A group has (exits + 1) x num_samples rollouts; S-GRPO has one thought a group. Hurts where
    the answer needs the thought to its end: exits are then always wrong, and dearer than nothing.
    """

    paper: ClassVar[str] = "2505.07686"
    cell: ClassVar[str] = "G4.2"
    origin: ClassVar[str] = "S"
    tokenwise: ClassVar[bool] = True

    exits: Count = 8
    marker: Annotated[str, Len(1, 1000)] = "#"
    """Induces an answer, such as `\\n</think>\\n\\nFinal answer: `."""
    answer_tokens: Count = 64

    def check(self, encode: Callable[[str], Sequence[int]]) -> None:
        if not len(encode(self.marker)):
            raise ConfigError(
                f"serial_exits.marker={self.marker!r} has no tokens in this vocabulary: give a "
                "text that the model knows."
            )

    def rollouts(self, num_samples: int) -> int:
        return num_samples * (self.exits + 1)

    async def run(self, session: Session) -> None:
        thoughts = [session.open(index) for index in range(session.job.num_samples)]
        await session.gather(*(self._leave(t, i, session) for i, t in enumerate(thoughts)))

    async def _leave(self, thought: Trajectory, index: int, session: Session) -> None:
        await thought.sample()
        marker = session.view.encode(self.marker)
        own = begins(self.marker, tokens=thought.tokens, view=session.view)
        end = len(thought.tokens) if own is None else own
        thought.notes[EXIT] = float(end)
        # Each thought has a generator of its own, so that no exit depends on which one ends first.
        rng = session.view.rng("serial_exits", session.job.prompt.id, index)
        places = [at for at in range(1, end) if thought.mask[at - 1]]
        rng.shuffle(places)
        chosen = sorted(places[: self.exits])
        await session.gather(*(self._answer(thought, at, marker) for at in chosen))

    async def _answer(self, thought: Trajectory, at: int, marker: Sequence[int]) -> None:
        left = thought.fork(at)
        left.notes[EXIT] = float(at)
        left.append(marker)
        await left.sample(max_tokens=self.answer_tokens)
