"""Detects a first batch whose rewards are all equal or no shares, or that is mostly cut."""

from collections.abc import Sequence
from typing import Final

from gfcr.errors import shown
from gfcr.strategy import Strategy
from gfcr.tasks.base import Codec, Task
from gfcr.types import FinishReason, Rollout, RolloutBatch
from gfcr.values.notes import REWARDS

_FEW: Final = 16
"""The least number of rollouts whose equal rewards are unlikely to be chance."""


def warnings(batch: RolloutBatch, *, task: Task, strategy: Strategy) -> list[str]:
    """Returns what looks wrong in a run's first batch."""
    found = (cut(batch), alike(batch, task=task), beyond(batch, strategy=strategy))
    return [said for said in found if said]


def alike(batch: RolloutBatch, *, task: Task) -> str | None:
    """Returns a warning if all rollouts have one reward, or one by a name; None if there is none.

    Where all rewards are equal it shows a rollout and its answer.
    """
    fresh = [r for g in batch.groups for r in g.rollouts if r.origin == "fresh"]
    scored = [r for r in fresh if r.reward is not None]
    if len(scored) < _FEW:
        return None
    if len({r.reward for r in scored}) > 1:
        return None if task.measures else _constant(scored)
    one = max(scored, key=lambda r: len(r.text.strip()) > 0)
    return (
        f"all {len(scored)} rollouts that were scored in the first update have the reward "
        f"{one.reward:g}: there is nothing to learn from them. Does the verifier compare what it "
        f"should? {task.scoring}\n"
        f"  prompt      {shown(one.prompt.text)}\n"
        f"  completion  {shown(one.text)}\n"
        f"  answer      {shown(one.prompt.answer)}"
    )


def _constant(scored: Sequence[Rollout]) -> str | None:
    """Returns a warning that names the rewards which are equal for all, beside others that vary."""
    names = dict.fromkeys(n for r in scored for n in r.notes if n.startswith(REWARDS))
    given = {n: {r.notes[n] for r in scored if n in r.notes} for n in names}
    same = {n.removeprefix(REWARDS): v for n, v in given.items() if len(v) == 1}
    if not same:
        return None
    told = ", ".join(f"{name} is {next(iter(values)):g}" for name, values in same.items())
    return (
        f"of the rewards in the first update, {told} for all {len(scored)} rollouts: nothing is "
        "learned from that. Does it compare what it should?"
    )


def beyond(batch: RolloutBatch, *, strategy: Strategy) -> str | None:
    """Returns a warning that names the parts which take rewards for shares where they are none."""
    scores = [r.reward for g in batch.groups for r in g.rollouts if r.reward is not None]
    named = [f"strategy.{at}" for at, part in strategy.parts.items() if part.takes_shares]
    if not named or not scores or (min(scores) >= 0 and max(scores) <= 1):
        return None
    return (
        f"the rewards of the first update go from {min(scores):g} to {max(scores):g}, and their "
        f"mean is taken for the share of right answers, from 0 to 1, by {', '.join(named)}: scale "
        "the reward, or give bounds on its own scale."
    )


def cut(batch: RolloutBatch) -> str | None:
    """Returns a warning if most rollouts were cut at the cap; None if not."""
    fresh = [r for g in batch.groups for r in g.rollouts if r.origin == "fresh"]
    ended = [r for r in fresh if r.finish != FinishReason.LENGTH]
    if len(fresh) < _FEW or 2 * len(ended) >= len(fresh):
        return None
    return (
        f"{len(fresh) - len(ended)} of {len(fresh)} rollouts of the first update were cut at "
        "sampling.max_tokens: their answers have no end of their own. Give more tokens, a text "
        "that ends them (sampling.stop=['\\n\\n'], as base models need), or a prompt that asks for "
        "less."
    )


def left_out(batch: RolloutBatch, *, codec: Codec) -> str | None:
    """Returns a warning that names the special tokens which rollouts hold and their text lacks."""
    rollouts = [r for g in batch.groups for r in g.rollouts]
    held = [found for r in rollouts if (found := codec.unsaid(r.tokens_T.tolist()))]
    if not held:
        return None
    names = ", ".join(sorted({name for found in held for name in found}))
    return (
        f"{len(held)} of {len(rollouts)} rollouts of the first update hold special tokens "
        f"({names}) that are left out of the text that is scored: give task.raw_text=true if "
        "rewards look for them."
    )
