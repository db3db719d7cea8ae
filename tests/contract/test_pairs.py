"""Parts from different stages run together, or are refused in time.

`make test` draws strategies by chance. `make test-all` runs every legal pair: each row of a
covering set combines one part of each stage, and hundreds of rows stand for all combinations.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import combinations
from typing import Any, Final, TypeAlias

import numpy as np
import pytest

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.errors import BatchCannotFill, ConfigError
from gfcr.strategy import Strategy
from gfcr.testing import laws

STAGES: Final = ("generate", "filter", "control", "replay", "correction")
NONE: Final = "none"
SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "refill": {"when_spent": "short"},
    "json_gate": {"failing": "set"},
    "parse_gate": {"failing": "set"},
    "reward_variance": {"kappa": 0.02},
}
"""What a part needs to have something to do on the fake engine."""
DRAWN: Final = 20
"""Strategies by chance that every run of the tests tries."""

Row: TypeAlias = Mapping[str, str]
"""Stage -> part, or `none`."""
Pair: TypeAlias = tuple[tuple[str, str], ...]


def plan(row: Row) -> Strategy:
    """GRPO with one part of each stage put in."""
    made = {
        kind: {"name": name, **SETTINGS.get(name, {})} for kind, name in row.items() if name != NONE
    }
    changes: dict[str, Any] = {key: made[key] for key in ("generate", "correction") if key in made}
    if extra := made.get("filter"):
        maps = registry.find("filter", extra["name"]).gives_advantages
        changes["filters"] = {"advantage": None, "part": extra}
        if not maps:
            changes["filters"]["map"] = {"name": "group_advantage"}
    for kind in ("control", "replay"):
        changes |= {f"{kind}s": {"part": made[kind]}} if kind in made else {}
    return strategies.load("grpo", **changes)


def refusal(row: Row) -> str | None:
    """Why the parts cannot be combined; None where they can."""
    try:
        plan(row).check()
    except ConfigError as error:
        return str(error)
    return None


@cache
def legal(pair: Pair) -> bool:
    """Whether two parts may stand in one strategy."""
    return refusal(dict(pair)) is None


def pairs_of(row: Row) -> list[Pair]:
    """The pairs of parts in a row, each in the order of `STAGES`."""
    given = [(kind, row[kind]) for kind in STAGES if row.get(kind, NONE) != NONE]
    return list(combinations(given, 2))


def covering() -> Iterator[Row]:
    """Rows in which every legal pair is met: each takes the first one missing and, greedily, more.

    (allpairspy, which does this, leaves pairs out where combinations are filtered.)
    """
    missing = dict.fromkeys(pair for pair in every_pair() if legal(pair))
    while missing:
        row = dict(next(iter(missing)))
        for kind in STAGES:
            if kind not in row:
                choices = [{**row, kind: name} for name in [*registry.names(kind), NONE]]
                fitting = [c for c in choices if all(map(legal, pairs_of(c)))]
                row = max(fitting, key=lambda c: sum(pair in missing for pair in pairs_of(c)))
        if refusal(row) is not None:  # three that no two of them refuse
            row = dict(next(iter(missing)))
        for pair in pairs_of(row):
            missing.pop(pair, None)
        yield row


def every_pair() -> Iterator[Pair]:
    kinds = [(kind, name) for kind in STAGES for name in registry.names(kind)]
    yield from (pair for pair in combinations(kinds, 2) if pair[0][0] != pair[1][0])


def trained(row: Row) -> bool:
    """Whether two updates trained on something; every token is accounted for.

    Where they did not, the row's filter rejected every group, or the batch said why it cannot fill:
    a replay may begin with prompts that are always right, which the filter is there to reject.
    """
    try:
        ran = laws.run(plan(row), updates=2)
    except BatchCannotFill:
        return False
    laws.accounts(ran)
    samples = [s for b in ran.batches for s in b.samples]
    assert all(np.isfinite(s.advantage_T).all() for s in samples)
    assert samples or all(group.rejected for b in ran.batches for group in b.groups)
    return bool(samples)


def most_train(rows: Iterable[Row]) -> None:
    """All run, and at least nine in ten find something to train on."""
    found = list[bool]()
    for row in rows:
        with noted(row):
            found.append(trained(row))
    assert sum(found) >= 0.9 * len(found)


def drawn(*, seed: int) -> Row:
    """A strategy by chance: one part of each stage, or none, drawn until nothing refuses them."""
    rng = random.Random(seed)
    while True:
        row = {kind: rng.choice([*registry.names(kind), NONE]) for kind in STAGES}
        if refusal(row) is None:
            return row


@pytest.mark.slow
def test_parts_drawn_by_chance_run_together() -> None:
    most_train(drawn(seed=seed) for seed in range(DRAWN))


@pytest.mark.whole
@pytest.mark.timeout(7200)
def test_every_pair_of_parts_runs_together() -> None:
    most_train(covering())


@contextmanager
def noted(row: Row) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note("+".join(name for name in row.values() if name != NONE))
        raise


@pytest.mark.whole
def test_a_refusal_says_which_part_and_why() -> None:
    refused = {pair: why for pair in every_pair() if (why := refusal(dict(pair)))}
    assert (("generate", "entropy_tree"), ("replay", "partial_rollouts")) in refused
    assert not [(pair, why) for pair, why in refused.items() if not why.startswith("strategy.")]
