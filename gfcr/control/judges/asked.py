"""What both ways of judging share: questions in words, counts by reason, and what is no reward."""

import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, runtime_checkable

from gfcr.control.judges.base import Answer, Judge
from gfcr.errors import ConfigError, shown
from gfcr.part import Recipe
from gfcr.types import FinishReason, Group, Rollout
from gfcr.values.templates import holding

_log = logging.getLogger(__name__)
READ: Final = ""
"""The reason of an answer that was read."""


@runtime_checkable
class Judged(Protocol):
    """A part that has a judge give rewards."""

    judge: Judge


def other_judge(strategy: Recipe, *, at: str) -> str | None:
    """Returns why a strategy has one judge: see `Part.clash`."""
    found = [address for address in strategy.hooks(Judged) if address != at]
    if not found:
        return None
    return f"{found[0]} judges the same rollouts, and the later rewards would stand: keep one."


def check_words(template: str, *, places: Sequence[str], pattern: str, where: str) -> None:
    """Refuses a template without its places, and a pattern that finds nothing.

    Raises:
        ConfigError: naming the key.
    """
    if template:
        holding(template, *places, where=f"{where}.template")
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ConfigError(f"{where}.pattern={shown(pattern)} is no pattern: {error}.") from error
    if groups != 1:
        raise ConfigError(
            f"{where}.pattern={shown(pattern)} has {groups} groups: give one pair of brackets, "
            "around what is read; `(?:...)` brackets without reading."
        )


def last_found(pattern: str, text: str) -> str | None:
    """Returns what the pattern's group holds where it matches last."""
    found = re.findall(pattern, text)
    return found[-1] if found else None


def counted(answers: Sequence[Answer], reasons: Sequence[str]) -> Counter[str]:
    """Answers asked for, read, failed by reason, tried again, and their tokens."""
    count = Counter(asked=len(answers), read=sum(reason == READ for reason in reasons))
    count["answered"] = sum(not answer.failed for answer in answers)
    count["retries"] = sum(answer.retries for answer in answers)
    count["tokens"] = sum(answer.tokens for answer in answers)
    count.update(f"failed/{reason}" for reason in reasons if reason != READ)
    return count


def heard(answers: Sequence[Answer], reasons: Sequence[str]) -> dict[str, str]:
    """Returns what was heard with the first failure of each reason."""
    found: dict[str, str] = {}
    for answer, reason in zip(answers, reasons, strict=True):
        if reason != READ and reason not in found:
            found[reason] = answer.said or f"the judge said {shown(answer.text)}"
    return found


def warn_once(said: Mapping[str, str], *, told: list[str]) -> None:
    """Says the first failure of each reason; `told` keeps what was said."""
    for reason in [reason for reason in said if reason not in told]:
        told.append(reason)
        words = "a judge gave no judgement (%s): %s. More of these: its metric failed/%s"
        _log.warning(words, reason, said[reason], reason)


def with_rewards(
    group: Group, rewards: Sequence[float | None], *, why: Sequence[str], said: Mapping[str, str]
) -> Group:
    """The group with a judge's rewards. None is unscorable for the reason in `why`, never 0."""
    judged = group.judged(rewards)
    pairs = zip(judged.rollouts, why, strict=True)
    rollouts = tuple(_blamed(rollout, reason, said) for rollout, reason in pairs)
    triples = zip(judged.signals, rollouts, judged.rollouts, strict=True)
    signals = tuple(signal.anew(new, before=old) for signal, new, old in triples)
    return replace(judged, rollouts=rollouts, signals=signals)


def _blamed(rollout: Rollout, reason: str, said: Mapping[str, str]) -> Rollout:
    if rollout.reward is not None or rollout.finish == FinishReason.ERROR:
        return rollout
    return replace(rollout, error=f"judge_{reason or 'alone'}: {said.get(reason, 'no game')}")


def most_common(reasons: Sequence[str]) -> str:
    """The reason why most failed; empty where none did."""
    failed = Counter(reason for reason in reasons if reason != READ)
    return failed.most_common(1)[0][0] if failed else READ
