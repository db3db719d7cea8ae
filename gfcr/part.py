"""What every pluggable part has: configuration as fields, optional memory, metrics."""

import copy
from abc import ABC
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, ClassVar, Protocol, TypeVar

from gfcr.errors import restoring
from gfcr.values.ranges import Checked

H = TypeVar("H")


class Recipe(Protocol):
    """What a part may ask of the strategy that it is part of."""

    @property
    def group_size(self) -> int:
        """Rollouts asked for a prompt."""
        ...

    @property
    def estimator(self) -> str:
        """The estimator of the loss, as `types.Loss.estimator` names it."""
        ...

    @property
    def corrected(self) -> bool:
        """Returns whether tokens are learned from by the log-probs that they were sampled with."""
        ...

    def hooks(self, kind: type[H]) -> dict[str, H]:
        """The parts of a kind, or that answer an event, by address, in order."""
        ...

    def map_before(self, at: str) -> str | None:
        """The address of an advantage map that comes before the filter at an address."""
        ...


class Part(Checked, ABC):
    """A dataclass whose init fields are its configuration and whose other fields are its memory.

    What an annotation does not allow is refused when the part is made, see `gfcr.values.ranges`.
    Declare memory as `field(init=False, ...)`: it is checkpointed and restored with the run.
    """

    paper: ClassVar[str] = ""
    """arXiv id of the source, shown by `gfcr list`."""
    cell: ClassVar[str] = ""
    """Where it lies in the survey's tree, a key of `gfcr.taxonomy.CELLS`; its kind may say it."""
    origin: ClassVar[str] = ""
    """Where its defaults come from, a key of `gfcr.taxonomy.ORIGINS`."""
    tokenwise: ClassVar[bool] = False
    """Whether it weighs, masks or adds single tokens, for which `loss.estimator=rloo` has no place:
    its ratio and its advantage are a rollout's."""
    one_batch: ClassVar[bool] = False
    """Whether what it remembers is of the one batch in the making: a schedule that would make
    several at a time then makes one after the other."""
    heats: ClassVar[bool] = False
    """Whether it has rollouts sampled at another temperature than the run's."""
    replies: ClassVar[bool] = False
    """Whether it answers the policy within a rollout, as tools and environments do."""
    libraries: ClassVar[tuple[str, ...]] = ()
    """Installed modules that it imports, which takes seconds and starts no thread: a sweep imports
    them once, and forks its trials."""

    @property
    def reads_columns(self) -> Sequence[str]:
        """Names of the data's columns that it reads of a prompt, see `Prompt.columns`; * is all."""
        return ()

    @property
    def takes_shares(self) -> bool:
        """Returns whether it takes a mean reward for a share of right answers, from 0 to 1."""
        return False

    def fewest(self) -> int:
        """Rollouts of a group, with fewer of which it could do nothing."""
        return 1

    def clash(self, strategy: Recipe, *, at: str) -> str | None:
        """Returns why it cannot be part of a strategy, and what to do; None where it can.

        Asked when a strategy is read, so that nothing starts.

        Args:
            strategy: the whole, this part in it.
            at: this part's address, such as `filters.advantage`.
        """
        if self.heats and not strategy.corrected:
            return (
                "tokens sampled at another temperature than the run's are off the policy, and the "
                "loss would take them for its own. Give `correction: {name: truncated}`, or "
                "`loss: {off_policy: behaviour}`."
            )
        if not self.tokenwise or strategy.estimator != "rloo":
            return None
        return (
            "it tells the tokens of a rollout apart, and loss.estimator='rloo' takes one ratio and "
            "one advantage a rollout: set estimator='grpo'."
        )

    def metrics(self) -> Mapping[str, float]:
        """Numbers to log after each update, under the part's name. None by default."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """The part's memory: every field that is not configuration."""
        return {f.name: copy.deepcopy(getattr(self, f.name)) for f in _memory(self)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ForeignCheckpointError: it is not of these fields, as another version's was.
        """
        own = {f.name for f in _memory(self)}
        with restoring(type(self).__name__):
            if set(state) != own:
                raise ValueError(f"it has {_listed(state)}, and this one {_listed(own)}")
        for f in _memory(self):
            object.__setattr__(self, f.name, copy.deepcopy(state[f.name]))


def heating(strategy: Recipe) -> list[str]:
    """Returns the addresses of parts that have rollouts sampled at another temperature."""
    return [name for name, part in strategy.hooks(Part).items() if part.heats]


def replying(strategy: Recipe) -> list[str]:
    """Returns the addresses of parts that answer the policy within a rollout."""
    return [name for name, part in strategy.hooks(Part).items() if part.replies]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "nothing"


def _memory(part: Any) -> list[Any]:
    return [f for f in fields(part) if not f.init]
