"""Functions shared by parts that choose prompts: candidates, training set and visits."""

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, final

from gfcr.handles.view import TOOLS, TURNS, View
from gfcr.types import Group, Prompt
from gfcr.values.notes import EPISODE

HELPED: Final = frozenset({"hint", "repair"})
"""Notes of rollouts that were told part of the answer, or what was wrong with an earlier one."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSet:
    """Every training prompt, in the order of the first epoch."""

    prompts: tuple[Prompt, ...] = ()

    def __deepcopy__(self, memo: Any) -> "TrainingSet":
        # Prompts are never changed, and a checkpoint copies a part's memory at every update.
        return self


def candidates(view: View, *, num: int, least: int, waiting: bool = False) -> list[Prompt]:
    """Draws `num` different prompts, or all there are; repeats, as of the next epoch, are put back.

    If these are fewer than `least`, the training set is smaller than that, and repeats are added.
    With `waiting`, for who puts back what it does not take, repeats are let go: a prompt never
    taken would wait once more with each epoch, until the stream brought few others.
    """
    found: dict[str, Prompt] = {}
    repeats: list[Prompt] = []
    # Without the second bound, a set that holds a prompt twice would be drawn from for ever.
    while len(found) < min(num, view.num_prompts) and len(repeats) <= 2 * view.num_prompts:
        (prompt,) = view.draw(1)
        if prompt.id in found:
            repeats.append(prompt)
        else:
            found[prompt.id] = prompt
    if not waiting:
        view.put_back(repeats)
    return [*found.values(), *view.draw(max(0, least - len(found)))]


def besides(view: View, *, num: int, taken: Collection[str]) -> list[Prompt]:
    """Draws prompts; one that the batch has is put back, unless the stream has few others."""
    drawn: list[Prompt] = []
    waiting: list[Prompt] = []
    while len(drawn) < num:
        (prompt,) = view.draw(1)
        # Without the bound, a stream of only such prompts would be drawn from for ever.
        doubled = prompt.id in taken and len(waiting) < len(taken)
        (waiting if doubled else drawn).append(prompt)
    view.put_back(waiting)
    return drawn


def training_set(view: View) -> TrainingSet:
    """Draws the training set: each prompt once."""
    return TrainingSet(prompts=tuple(candidates(view, num=view.num_prompts, least=0)))


def rewards(group: Group) -> list[float]:
    """Returns the verifier's rewards of the rollouts made in this update that could be scored.

    Those that were helped are left out: they do not tell how often the policy solves the prompt.
    Of an episode that is several rollouts, which have one reward, it is returned once.
    """
    own = [r for r in group.rollouts if r.origin == "fresh" and not HELPED & r.notes.keys()]
    found = {r.notes.get(EPISODE, r.id): r.reward for r in own}
    return [reward for reward in found.values() if reward is not None]


def visit(group: Group, *, threshold: float) -> tuple[int, int]:
    """Counts right (reward >= `threshold`) and wrong rollouts among those of this update."""
    scored = rewards(group)
    right = sum(reward >= threshold for reward in scored)
    return right, len(scored) - right


def as_asked(prompt: Prompt) -> Any:
    """Returns a prompt as TRL hands it on: messages where it is a conversation, else its text."""
    return _turns(prompt) or prompt.text


def in_words(prompt: Prompt) -> str:
    """Returns a prompt as text for another model: tools and turns of a conversation, by role."""
    turns, tools = _turns(prompt), prompt.meta.get(TOOLS)
    if len(turns) < 2 and not tools:
        return prompt.text
    told = [f"tools: {json.dumps(tools)}"] if tools else []
    return "\n\n".join([*told, *(f"{turn['role']}: {_said(turn)}" for turn in turns)])


def _turns(prompt: Prompt) -> list[Any]:
    turns: Any = prompt.meta.get(TURNS, ())
    # A template words anew what the user says last.
    return [
        {**turn, "content": prompt.text} if turn is turns[-1] and turn["role"] == "user" else turn
        for turn in turns
    ]


def _said(turn: Any) -> str:
    calls = turn.get("tool_calls")
    return "\n".join(filter(None, (turn.get("content"), json.dumps(calls) if calls else "")))
