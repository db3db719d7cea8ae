"""What every task must do, whoever wrote it. Each law raises what it found; see `laws`."""

import pickle
from collections.abc import Sequence
from math import inf, nan
from numbers import Real
from typing import Any, cast

from gfcr.errors import shown
from gfcr.loop.together import verify_all
from gfcr.part import Part
from gfcr.tasks.base import Asked, Problems, Task, Verdict
from gfcr.testing.factories import TEXT
from gfcr.testing.laws import CORRECTION_LAWS, PART_LAWS, Law, hold
from gfcr.types import Prompt


def splits_apart(kind: str, part: Task) -> None:
    """It has prompts with tokens to train on and others held out, the same each time."""
    made, again = (cast(Any, part.problems(TEXT)) for _ in range(2))
    hold(isinstance(made, Problems), f"`problems` gave {shown(made)}: give Problems")
    for name in ("train", "heldout"):
        prompts: Sequence[Any] = getattr(made, name)
        hold(len(prompts) > 0, f"`problems` gave no prompts in `{name}`")
        odd = [p for p in prompts if not isinstance(p, Prompt) or not p.tokens]
        hold(not odd, f"`{name}` holds what is no Prompt with tokens: {shown(odd[:1])}")
        hold(len({p.id for p in prompts}) == len(prompts), f"`{name}` has an id twice")
        same = [*prompts] == [*getattr(again, name)]
        hold(same, f"`{name}` is another one when asked again: seed its draws")
    both = {p.tokens for p in made.train} & {p.tokens for p in made.heldout}
    hold(not both, f"{len(both)} prompts are in `train` and in `heldout`: keep them apart")


def verifies(kind: str, part: Task) -> None:
    """Its verdicts are finite rewards in its range, the same when asked again, or of a copy."""
    low, high = part.reward_range or (-inf, inf)
    for verdict in (found := _verdicts(part)):
        hold(isinstance(verdict, Verdict), f"`verify` gave {shown(verdict)}: give a Verdict")
        given = shown(reward := verdict.reward)
        number = float(reward) if isinstance(reward, Real) else nan
        inside = reward is None or (low <= number <= high and abs(number) < inf)
        hold(inside, f"`verify` gave the reward {given}: give a number in [{low}, {high}]")
    hold(_verdicts(part) == found, "its verdicts are others when asked again")
    copy = pickle.loads(pickle.dumps(part))
    hold(_verdicts(copy) == found, "pickled and back, it gives others: what it needs is no field")


def has_levels(kind: str, part: Task) -> None:
    """A level and a seed make a problem, the same each time, and never one that is held out."""
    heldout = {p.tokens for p in part.problems(TEXT).heldout}
    for level in (0, 3, 10**4):
        what = f"at_level(level={level}, seed=7)"
        made, again = (cast(Any, part.at_level(TEXT, level=level, seed=7)) for _ in range(2))
        hold(isinstance(made, Prompt), f"{what} gave {shown(made)}: give a Prompt")
        hold(made == again, f"{what} gave two problems: draw by level and seed alone")
        hold(made.tokens not in heldout, f"{what} gave a held-out problem")


def laws_of(kind: str, part: Part) -> tuple[Law, ...]:
    """Returns the laws that a part of a kind is to keep; that of levels where a task has some."""
    levels = isinstance(part, Task) and type(part).at_level is not Task.at_level
    of_tasks = (splits_apart, verifies, has_levels) if levels else (splits_apart, verifies)
    own: dict[str, Sequence[Law]] = {"task": of_tasks, "correction": CORRECTION_LAWS}
    return (*PART_LAWS, *own.get(kind, ()))


def _verdicts(task: Task) -> list[Any]:
    prompts = task.problems(TEXT).train[:4]
    texts = [(p, text) for p in prompts for text in (p.answer, f"#{p.answer}", "?")]
    return verify_all(task, [Asked(prompt=p, text=text) for p, text in texts])
