"""The held-out evaluation: what is asked of every arm alike, and the summary of the answers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean
from typing import Any

from gfcr.config import Evaluation
from gfcr.errors import GfcrError, TaskError
from gfcr.loop.known import digest
from gfcr.stages import EPISODE
from gfcr.tasks.base import Problems
from gfcr.types import FinishReason, Group, Prompt, Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Heldout:
    """Reward on held-out prompts at one point of a run."""

    accuracy: float
    """Mean reward of the answers that could be scored."""
    n: int
    """The number of answers that could be scored."""
    per_prompt: Mapping[str, float]
    """Mean reward by prompt id, for paired comparison; prompts without a scored answer are absent.
    """
    unscorable: Mapping[str, int]
    """The number of answers without a score by prompt id, for prompts that have any."""
    cut: int
    """The number of answers cut by the cap on tokens."""
    disagreed: int | None = None
    """How many answers got another reward when verified again; None if that was not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The evaluation of a run: what is asked each time, the same in every arm."""

    prompts: tuple[Prompt, ...]
    samples: int
    training: str = ""
    """Digest of the training prompts, which are the same for all arms too."""

    def record(self) -> dict[str, Any]:
        """Returns what two runs must have in common for their scores to be compared."""
        return {
            "digest": digest(self.prompts),
            "prompts": len(self.prompts),
            "samples": self.samples,
        }

    def summarise(self, groups: Sequence[Group]) -> Heldout:
        """Summarises the answers; those missing from the `samples` of a prompt are unscorable.

        Raises:
            GfcrError: a prompt has more answers than were asked for.
        """
        # Of the turns of one episode the last is the answer.
        last = {g.prompt.id: {_answer(r): r for r in g.rollouts} for g in groups}
        found = {prompt: [r.reward for r in own.values()] for prompt, own in last.items()}
        for prompt, answers in found.items():
            if len(answers) > self.samples:
                raise GfcrError(
                    f"evaluation.generate gave {len(answers)} answers to held-out prompt "
                    f"{prompt!r}, where evaluation.samples={self.samples} asks for as many: give a "
                    "part that opens one trajectory a sample, such as sample or multi_turn."
                )
        scores = {p: [a for a in answers if a is not None] for p, answers in found.items()}
        # It is of what was asked, as an answer that did not come back must not raise a score.
        lost = {p.id: self.samples - len(scores.get(p.id, ())) for p in self.prompts}
        flat = [score for own in scores.values() for score in own]
        return Heldout(
            accuracy=fmean(flat) if flat else nan,
            n=len(flat),
            per_prompt={prompt: fmean(own) for prompt, own in scores.items() if own},
            unscorable={prompt: num for prompt, num in lost.items() if num},
            cut=sum(
                len({_answer(r) for r in g.rollouts if r.finish == FinishReason.LENGTH})
                for g in groups
            ),
        )


def _answer(rollout: Rollout) -> object:
    """Returns what tells an answer from its group's others: the turns of an episode share it."""
    return rollout.notes.get(EPISODE, rollout.id)


def question(problems: Problems, *, evaluation: Evaluation) -> Question:
    """Takes the first held-out prompts, after checking both splits.

    Args:
        problems: the task's training and held-out prompts.
        evaluation: how many prompts to ask, and how many answers of each.

    Raises:
        TaskError: there are too few, two have the same id, or one is a training prompt too.
    """
    prompts, there = evaluation.prompts, len(problems.heldout)
    if there < prompts or not there:
        raise TaskError(
            f"evaluation.prompts={prompts} and the task has {there} held-out prompts: give at most "
            "as many, or make the held-out split larger (task.num_heldout, task.heldout_fraction)."
        )
    chosen = tuple(problems.heldout[:prompts])
    ids = {prompt.id for prompt in chosen}
    if len(ids) < len(chosen):
        raise TaskError(
            f"the task's held-out split has {len(chosen)} prompts with {len(ids)} different ids: "
            "give every prompt an id of its own, and each prompt once."
        )
    # Those not asked too: the run would end where one of them is drawn.
    asked = {prompt.tokens for prompt in problems.heldout}
    seen: dict[tuple[int, ...], Prompt] = {}

    # One pass over the split, which may be too large to hold or to read twice.
    def looked_at() -> Iterable[Prompt]:
        for prompt in problems.train:
            if prompt.tokens in asked:
                seen[prompt.tokens] = prompt
            yield prompt

    training = digest(looked_at())
    if seen:
        first = next(iter(seen.values()))
        raise TaskError(
            f"{len(seen)} of {there} held-out prompts are training prompts too, token for "
            f"token, such as {first.text[:80]!r}: what is trained on measures nothing. Give the "
            "task splits without a common prompt."
        )
    return Question(prompts=chosen, samples=evaluation.samples, training=training)
