"""Checks of what a part's hook returns, with errors that name the part that is wrong.

A part that raises, or returns what cannot be trained on, stops the run with its address in the
strategy. A verifier that does so makes one rollout unscorable.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from numbers import Rational
from typing import Any, cast

import numpy as np

from gfcr.errors import PartError, shown
from gfcr.loop.known import Known
from gfcr.types import Floats, Group, Prompt, Rollout, Signal
from gfcr.values.notes import REWARDS
from gfcr.values.numbers import LARGEST, is_note, is_number, real


def misfit(address: str, problem: str) -> PartError:
    """Returns the error for a part at `address` that gave back something it must not."""
    return PartError(f"strategy.{address}: {problem}.")


def flaw(
    mask: Sequence[bool],
    *,
    logprobs: Sequence[float],
    notes: Mapping[str, Any],
    detail: str,
) -> str | None:
    """Returns why these columns and notes are no rollout; None if they are one."""
    if not any(mask):
        return "no token was sampled for it" + (f" ({detail})" if detail else "")
    if not np.isfinite(logprobs).all():
        return "the engine gave log-probs that are not finite: the model's numbers overflow"
    said = {k: v for k, v in notes.items() if isinstance(v, str) and str(k).startswith(REWARDS)}
    odd = {k: v for k, v in notes.items() if not is_note(k, v)} | said
    return f"its notes are no numbers (or texts, but no rewards): {shown(odd)}" if odd else None


def check_group(group: Any, *, before: Group, by: str) -> Group:
    """Checks that a part returned the same group, annotated with values that can be trained on.

    Raises:
        PartError: names the part, the group, the rollout and the value.
    """
    where = f"group {before.id} of prompt {before.prompt.id!r}"
    if not isinstance(group, Group):
        raise misfit(by, f"returned {kind(group)} for {where}: return the Group")
    # Rollouts are read-only: the same object holds the same tokens and log-probs.
    if group.id != before.id or list(map(id, group.rollouts)) != list(map(id, before.rollouts)):
        raise misfit(
            by,
            f"{where} came back with other rollouts than its {len(before.rollouts)}: annotate them "
            "(`reject_rollouts`, `with_rewards`, `with_advantages`), never add or delete any",
        )
    if len(group.signals) != len(group.rollouts):
        raise misfit(
            by, f"{where} came back with {len(group.signals)} signals for {len(group.rollouts)}"
        )
    if problem := _reason_problem(group.rejected):
        raise misfit(by, f"{where}: {problem}")
    for rollout, signal, old in zip(group.rollouts, group.signals, before.signals, strict=True):
        kept = group.rejected is None
        if problem := _problem(signal, rollout=rollout, kept=kept, before=old):
            rewards = ", ".join(f"{r:g}" for r in before.rewards_N[:16])
            raise misfit(by, f"{where}, rollout {rollout.id}: {problem} (rewards {rewards})")
    check_numbers(group.values, by=by, what=f"the values of {where}")
    return group


def check_judged(group: Any, *, before: Group, by: str) -> Group:
    """Checks that an Evaluator changed the rewards and scores of a group and nothing else.

    Raises:
        PartError: names the part, the group and the rollout.
    """
    where = f"group {before.id} of prompt {before.prompt.id!r}"
    if not isinstance(group, Group):
        raise misfit(by, f"returned {kind(group)} for {where}: return the Group")
    same = len(group.rollouts) == len(before.rollouts) and all(
        _same_but_reward(new, old) for new, old in zip(group.rollouts, before.rollouts, strict=True)
    )
    if not same:
        raise misfit(
            by,
            f"{where} came back with other rollouts: give them rewards with `group.judged`, scores "
            "with `group.with_scores`, and leave them as they are",
        )
    rewards = [r.reward for r in group.rollouts]
    if wrong := [w for w in rewards if w is not None and real(w) is None]:
        said = f"{where} came back with the reward {shown(wrong[0])}"
        raise misfit(by, f"{said}: give finite numbers, or None for what is not judged")
    numbers = [None if w is None else float(w) for w in rewards]
    pairs = zip(group.rollouts, numbers, strict=True)
    rollouts = tuple(replace(r, reward=w) for r, w in pairs)
    group, before = replace(group, rollouts=rollouts), replace(before, rollouts=rollouts)
    return check_group(group, before=before, by=by)


def _same_but_reward(new: Rollout, old: Rollout) -> bool:
    names = {f.name for f in fields(Rollout)} - {"reward", "error"}
    return all(getattr(new, name, None) is getattr(old, name) for name in names)


def check_groups(groups: Any, *, before: Sequence[Group], by: str) -> list[Group]:
    """Checks that a BatchMap returned the same groups in the same order.

    Raises:
        PartError: see `check_group`.
    """
    found: list[Any] = list(groups)
    if len(found) != len(before):
        raise misfit(by, f"returned {len(found)} groups for {len(before)}: return each, in order")
    return [check_group(g, before=b, by=by) for g, b in zip(found, before, strict=True)]


def check_recalled(
    rollouts: Iterable[Any], *, group: Group, known: Known, by: str
) -> list[Rollout]:
    """Checks that recalled rollouts may join the group.

    Raises:
        PartError: one answers another prompt, is incomplete, or was not made by this run.
    """
    recalled = list(rollouts)
    for rollout in recalled:
        problem = rollout_problem(rollout, prompt=group.prompt, known=known)
        if problem is None and not rollout.complete:
            problem = f"rollout {rollout.id} is incomplete (finish={rollout.finish.value})"
        if problem is not None:
            raise misfit(by, f"recalled for group {group.id}: {problem}")
    return recalled


def check_numbers(values: Mapping[Any, Any], *, by: str, what: str) -> None:
    """Checks that measurements map names to numbers; the numbers need not be finite.

    Raises:
        PartError: a name is no text, or a value is no number.
    """
    if not isinstance(cast(object, values), Mapping):
        raise misfit(by, f"{what} are {kind(values)}: give names numbers")
    for key, value in values.items():
        # An integer beyond all floats has no mean.
        huge = isinstance(value, Rational) and real(value) is None
        if not isinstance(key, str) or not is_number(value) or huge:
            raise misfit(by, f"{what} hold {key!r}: {shown(value)}: give names numbers")


def _problem(signal: Any, *, rollout: Rollout, kept: bool, before: Signal) -> str | None:
    """Returns what is wrong with a signal; that of an untrained rollout may be anything."""
    if not isinstance(signal, Signal):
        return f"its signal is {kind(signal)}, not a Signal"
    if not kept or signal.rejected is not None:
        return _reason_problem(signal.rejected)
    if signal.reward is None:
        return "it is unscorable, and kept without a reward: leave it rejected or give it one"
    for name, score in signal.scores.items():
        if problem := _values_problem(score, rollout, what=f"score {name!r}"):
            return problem
    for name in ("reward", "weight"):
        value = getattr(signal, name)
        if real(value) is None:
            return f"its {name} is {shown(value)}, not a finite number"
    if (given := signal.advantage) is None:
        return None
    if given is before.advantage and signal.reward != before.reward:
        return (
            "its reward was changed behind its advantage, which is what is learned from: put what "
            "changes rewards before the map that makes advantages of them"
        )
    return _values_problem(given, rollout, what="advantage")


def _reason_problem(reason: object) -> str | None:
    """Returns what is wrong with a reason for which something is not trained on."""
    if reason is None or (isinstance(reason, str) and reason):
        return None
    return f"it is rejected for {kind(reason)}: give the reason as a text, or None to keep it"


def _values_problem(values: Floats | float, rollout: Rollout, *, what: str) -> str | None:
    if not isinstance(values, np.ndarray):
        finite = real(values) is not None
        return None if finite else f"its {what} is {shown(values)}, not finite"
    if values.shape != (len(rollout),) or values.dtype.kind not in "fiub":
        return (
            f"its {what}s have shape {values.shape} and type {values.dtype}: give one "
            f"real number for each of its {len(rollout)} tokens"
        )
    # No comparison with NaN is true: `abs > LARGEST` would let it pass.
    wrong = np.flatnonzero(~(np.abs(values.astype(np.float64)) <= LARGEST))
    if len(wrong):
        return f"the {what} of its token {wrong[0]} is {values[wrong[0]]}, not finite"
    return None


def rollout_problem(rollout: Any, *, prompt: Prompt, known: Known) -> str | None:
    """Returns why an earlier rollout cannot be used again for a prompt; None where it can."""
    if not isinstance(rollout, Rollout):
        return f"{kind(rollout)} is no Rollout"
    if not known.answers(rollout, prompt=prompt):
        return f"rollout {rollout.id} answers prompt {rollout.prompt.id!r}, not {prompt.id!r}"
    if not known.may_return(rollout):
        return (
            f"rollout {rollout.id} is none that this run made, or one that `holds` did not name: "
            "give rollouts back as they were stored, and name those that may come back"
        )
    return None


def kind(value: object) -> str:
    """Describes a value with its type, for messages."""
    return f"{type(value).__name__} {shown(value)}"
