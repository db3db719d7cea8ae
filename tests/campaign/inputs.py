"""Bad input by the thousand: every field of everything registered, with values of every kind."""

import inspect
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import yaml

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.config import Budget, Evaluation, Experiment
from gfcr.part import Part
from gfcr.search.space import Search
from gfcr.types import Loss, Sampling
from gfcr.values.ranges import hints_of

ROOT = Path(__file__).parents[2]
VALUES: tuple[Any, ...] = (
    *(-1, 0, 1, 2, 3.5, -0.5, 0.5, 1.0, 10**6, 10**12, 10**30, -(10**30), 1e300),
    *(math.nan, math.inf, -math.inf, True, False, None),
    *("", "x", "3", "none", "x" * 300, "x" * 20_000, "é😀\u202e", "a\0b", "../../up", "/dev/null"),
    *("os:system", "os:abort", "${oc.env:HOME}", "__import__('os')", "-", "=1+1", "[", "{"),
    *([], [1], ["x", None], {}, {"name": "x"}, {"a": {"b": 1}}, [[[[1]]]]),
)
SMALL: dict[str, Any] = {
    "study": "t",
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 1},
    "tracking": {"name": "local"},
    "task": {"name": "chain_sum", "num_train": 64, "num_heldout": 8},
    "prompts": 2,
    "sampling": {"max_tokens": 24},
    "evaluation": {"prompts": 2, "sampling": {"max_tokens": 24}},
}
INNER: dict[str, tuple[tuple[str, ...], str]] = {
    "environment": (("strategy", "generate", "environment"), "stepwise"),
    "judge": (("strategy", "controls", "judge", "judge"), "self_judge"),
    "tool": (("strategy", "generate", "tool"), "multi_turn"),
}
"""Kind of part that another one holds -> where it is given, and a strategy that has the place."""
NEEDED: dict[str, Any] = {"path": "data.jsonl", "model": "draft", "first": 1, "max_steps": 1}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One value at one place of a file that is right but for it."""

    path: tuple[str, ...]
    value: Any
    base: Mapping[str, Any]

    @property
    def values(self) -> dict[str, Any]:
        """What the file holds."""
        return planted(self.base, self.path, self.value)

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}={self.value!r}"[:120]


def planted(base: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The values with another one at a place."""
    first, *rest = path
    inner = base.get(first)
    inner = inner if isinstance(inner, Mapping) else {}
    return {**base, first: planted(inner, tuple(rest), value) if rest else value}


def places() -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Every place of an experiment that a value may be given for, and a file that has it."""
    for name in hints_of(Experiment):
        yield (name,), SMALL
    for key, record in (("sampling", Sampling), ("evaluation", Evaluation), ("budget", Budget)):
        for name in hints_of(record):
            yield (key, name), SMALL
    for name in hints_of(Loss):
        yield ("strategy", "loss", name), {**SMALL, "strategy": {"name": "grpo"}}
    for name in hints_of(Search):
        space = {"strategy.group_size": [4, 8]}
        yield ("search", name), {**SMALL, "search": {"space": space}}
    for name in strategies.names():
        for knob in inspect.signature(strategies.find(name)).parameters:
            yield ("strategy", knob), {**SMALL, "strategy": {"name": name}}
    for key in (
        "seeds",
        "arms",
        "factors",
        "design",
        "baseline",
        "stopping",
        "launcher",
        "compares",
    ):
        yield (key,), {**SMALL, "seeds": [0], "arms": {"a": {"strategy": "grpo"}}}
    yield from _parts()


def _parts() -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    top = ("task", "engine", "trainer", "tracking", "launcher", "stopping")
    study = {"arms": {"a": {"strategy": "grpo"}, "b": {"strategy": "dr_grpo"}}, "seeds": [0, 1]}
    for kind in registry.KINDS:
        for name in registry.names(kind) if kind != "verifier" else ():  # needs data: unit/tasks
            part = registry.find(kind, name)
            spec = {"name": name, **{k: v for k, v in NEEDED.items() if _lacks(part, k)}}
            path, strategy = (kind,) if kind in top else ("strategy", kind), "grpo"
            if kind in ("filter", "control"):
                path = ("strategy", f"{kind}s", "mine")
            if kind in INNER:
                path, strategy = INNER[kind]
            base = {**SMALL, **(study if kind in ("launcher", "stopping") else {})}
            base = planted({"strategy": {"name": strategy}, **base}, path, spec)
            yield (*path, "name"), base
            for field in hints_of(part):
                yield (*path, field), base


def _lacks(part: type[Part], name: str) -> bool:
    from gfcr.values.plain import is_required

    return any(f.name == name and f.init and is_required(f) for f in fields(part))  # pyright: ignore[reportArgumentType]


def field_cases() -> list[Case]:
    """Every place with every value."""
    return [Case(path=path, value=value, base=base) for path, base in places() for value in VALUES]


def committed() -> list[tuple[Path, tuple[str, ...], dict[str, Any]]]:
    """Every leaf of every committed experiment and study."""
    found: list[tuple[Path, tuple[str, ...], dict[str, Any]]] = []
    for file in sorted(ROOT.glob("experiments/**/*.yaml")):
        values = yaml.safe_load(file.read_text())
        found += [(file, path, values) for path in _leaves(values)]
    return found


def _leaves(values: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(values, dict):
        for key, inner in values.items():
            yield (*above, str(key))
            yield from _leaves(inner, (*above, str(key)))


FILES: dict[str, bytes] = {
    "empty": b"",
    "only a comment": b"# nothing\n",
    "null": b"null\n",
    "a list": b"- strategy: grpo\n",
    "text": b"hello\n",
    "binary": bytes(range(256)),
    "not UTF-8": "strategy: grpo # é".encode("latin-1"),
    "UTF-16": "strategy: grpo".encode("utf-16"),
    "no YAML": b"a: [1, 2\n",
    "tabs": b"a:\n\tb: 1\n",
    "900 lists": b"strategy: " + b"[" * 900 + b"]" * 900,
    "900 mappings": b"strategy: " + b"{a: " * 900 + b"1" + b"}" * 900,
    "100 levels": b"strategy: " + b"[" * 100 + b"]" * 100,
    "a key twice": b"prompts: 2\nprompts: 3\n",
    "itself": b"a: &a [*a]\n",
    "a Python object": b"strategy: !!python/object/apply:os.system ['exit 3']\n",
    "a binary tag": b"study: !!binary aGk=\n",
    "a set": b"study: !!set {x}\n",
    "a bad tag": b"seed: !!int ''\n",
    "a bad bool": b"seed: !!bool maybe\n",
    "a date": b"study: !!timestamp 2001-01-01\n",
    "two documents": b"prompts: 2\n---\nprompts: 3\n",
    "a mapping as key": b"{{a: 1}: 2}\n",
    "the environment": b"study: ${oc.env:HOME}\n",
    "the environment as key": b"${oc.env:HOME}: 1\n",
    "5000 digits": b"seed: " + b"9" * 5000 + b"\n",
    "400 digits": b"seed: " + b"9" * 400 + b"\n",
    "NUL": b'study: "a\\0b"\n',
    "a surrogate": b'study: "\\ud800"\n',
    "its own base": b"base: x.yaml\n",
    "no base": b"base: nowhere.yaml\n",
    "a base that is a list": b"base: [a.yaml]\n",
    "a base that is a folder": b"base: .\n",
    "a base with NUL": b'base: "\\0"\n',
    "seed in an arm": b"arms: {a: {seed: 3}}\n",
    "a number as strategy": b"strategy: 3\n",
    "nothing as strategy": b"strategy: null\n",
    "a list as task": b"task: [chain_sum]\n",
    "nothing as engine": b"engine: null\n",
    "an object as name": b"task: {name: {a: 1}}\n",
}
