"""The training reward of a dataset's rollouts: one verifier, or several rewards by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from gfcr.errors import ConfigError, shown
from gfcr.tasks.base import Asked, Verdict
from gfcr.tasks.functions import Function
from gfcr.tasks.verifiers import base
from gfcr.tasks.verifiers.base import Scorer
from gfcr.values import plain
from gfcr.values.numbers import real
from gfcr.values.ranges import Checked, File, Finite, Options

EVALUATED: Final = "gfcr.evaluated"
"""Key in a prompt's `meta` which says that the metric scores it, not the rewards."""


@final
@dataclass(frozen=True, kw_only=True)
class Reward(Checked):
    """A reward, to be weighted and summed with others."""

    verifier: File
    """Verifier of the reward, as `dataset.verifier`."""
    options: Options = field(default_factory=dict[str, Any])
    """Options of the verifier, or further arguments of the function."""
    weight: Finite = 1.0


def scorer(name: str, *, options: Mapping[str, Any], where: str) -> Scorer:
    """Makes a verifier of gfcr's by name, or a function of the user's by address.

    Raises:
        ConfigError: it does not exist, or does not take the options.
    """
    if ":" in name:
        return Function(name, options=options, where=where)
    return base.load(name, options=options, where=where)


@final
class Rewards:
    """Rewards by name, and the weights of their sum."""

    def __init__(self, given: Mapping[str, Any], *, where: str) -> None:
        """Builds rewards from plain values.

        Raises:
            ConfigError: a name, key or value is not allowed, or all weights are 0.
        """
        self._named: dict[str, tuple[Scorer, float]] = {}
        self._where = where
        for name, value in given.items():
            place = f"{where}.{name}"
            values = {"verifier": value} if isinstance(value, str) else value
            made = Reward(**plain.merge(Reward, {}, values, where=place))
            found = scorer(made.verifier, options=made.options, where=f"{place}.verifier")
            self._named[name] = found, made.weight
        if given and not any(weight for _, weight in self._named.values()):
            raise ConfigError(f"{where}: all weights are 0, so that nothing is trained on.")

    @property
    def named(self) -> dict[str, Scorer]:
        """The rewards by name."""
        return {name: made for name, (made, _) in self._named.items()}

    def judge_all(self, asked: Sequence[Asked]) -> list[Verdict]:
        """Returns the weighted sums of scores, without missing ones; one that fails fails all."""
        found = {name: self._scored(name, asked) for name in self._named}
        return [self._sum({n: found[n][i] for n in found}) for i in range(len(asked))]

    def _scored(self, name: str, asked: Sequence[Asked]) -> list[Verdict]:
        try:
            return self._named[name][0].judge_all(asked)
        except (Exception, SystemExit) as error:
            error.add_note(f"({self._where}.{name})")
            raise

    def _sum(self, verdicts: Mapping[str, Verdict]) -> Verdict:
        if error := next((v.error for v in verdicts.values() if v.error is not None), None):
            return Verdict(reward=None, error=error)
        scores = {name: v.reward for name, v in verdicts.items() if v.reward is not None}
        if odd := [name for name, score in scores.items() if real(score) is None]:
            kind, told = type(scores[odd[0]]).__name__, shown(scores[odd[0]])
            said = f"{self._where}.{odd[0]} gave the reward {told} ({kind}), not a finite number"
            return Verdict(reward=None, error=f"VerdictError: {said}")
        known = [w * score for name, score in scores.items() if (w := self._named[name][1])]
        return Verdict(reward=sum(known) if known else None, scores=scores)
