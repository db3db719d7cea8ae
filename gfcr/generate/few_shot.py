"""Answers under examples: prompts of the run with the answers that were right."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, final

from gfcr.stages import Generate, Harvest, Observer, Session, Trajectory, View
from gfcr.types import Prompt, Rollout
from gfcr.values.ranges import Count, Finite, Text
from gfcr.values.templates import filled, holding


@final
@dataclass(kw_only=True)
class FewShot(Generate, Observer):
    """Samples like `sample`, and where a job asks for hints, behind solved examples.

    These are other prompts of the run and their right answers, `examples` drawn at random from the
    newest `capacity` for each rollout, and fewer where they would not fit the engine's context;
    each stands before the prompt as `example` has it. What
    comes of them is trained as an answer to the plain prompt, its log-probs taken again under that.
    The control `scaffold` asks by the note `hint`, for prompts that no plain rollout answered (XRPO
    seeds those). Such rollouts have `hint` and the number of `examples` in their notes.

    Where nothing is solved yet such a rollout is sampled plainly. Hurts where examples are of
    another kind, or so long that few fit.
    """

    paper: ClassVar[str] = "2510.06672"
    cell: ClassVar[str] = "G4.3"
    origin: ClassVar[str] = "ours"
    resumes: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("hint",)

    examples: Count = 2
    example: Text = "{prompt}{answer},"
    """Suits the demo; for models of prose end it in a blank line."""
    capacity: Count = 256
    threshold: Finite = 0.5
    """Reward from which an answer is right."""
    solved: deque[Rollout] = field(init=False, default_factory=deque[Rollout])
    seeded: int = field(init=False, default=0)
    """Rollouts sampled behind examples so far."""

    def __post_init__(self) -> None:
        holding(self.example, "prompt", "answer", where="few_shot.example")

    def check(self, encode: Callable[[str], Sequence[int]]) -> None:
        encode(self.example.replace("{prompt}", "").replace("{answer}", ""))

    async def run(self, session: Session) -> None:
        indices = range(session.job.num_samples)
        await session.gather(*(self._open(i, session=session).sample() for i in indices))

    def observe(self, harvest: Harvest, *, view: View) -> None:
        fresh = [r for g in harvest.groups for r in g.rollouts if r.origin == "fresh"]
        scored = [(r, r.reward) for r in fresh if r.reward is not None and not r.sampled_under]
        right = [r for r, reward in scored if reward >= self.threshold]
        self.solved = deque([*self.solved, *right][-self.capacity :])

    def metrics(self) -> Mapping[str, float]:
        """Rollouts sampled behind examples so far, and solved ones in memory."""
        return {"seeded": float(self.seeded), "solved": float(len(self.solved))}

    def _open(self, index: int, *, session: Session) -> Trajectory:
        plain, job = session.job.prompt, session.job
        # A resumed trajectory begins with tokens that had their prompt, and gets no other one.
        if not job.notes.get("hint") or index < len(job.resume):
            return session.open(index)
        # A solved rollout of the same question would tell the answer that is asked for.
        others = [r for r in self.solved if r.prompt.tokens != plain.tokens]
        # The rollout is in the key, or a whole group would stand behind the same examples.
        drawn = session.view.rng("few_shot", plain.id, index).permutation(len(others))[
            : self.examples
        ]
        chosen = [others[int(i)] for i in drawn]
        prompt = self._seeded(plain, chosen, view=session.view) if chosen else plain
        while chosen and len(prompt.tokens) > session.view.room:
            chosen = chosen[1:]
            prompt = self._seeded(plain, chosen, view=session.view) if chosen else plain
        trajectory = session.open(index, prompt=prompt, train_under=plain)
        trajectory.notes |= {"hint": job.notes["hint"], "examples": float(len(chosen))}
        self.seeded += bool(chosen)
        return trajectory

    def _seeded(self, plain: Prompt, chosen: Sequence[Rollout], *, view: View) -> Prompt:
        told = [filled(self.example, answer=r.text, prompt=r.prompt.text) for r in chosen]
        return view.prompt("".join([*told, plain.text]), answer=plain.answer, meta=plain.meta)
