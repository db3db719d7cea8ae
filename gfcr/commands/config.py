"""`gfcr config`."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from gfcr import config as configs
from gfcr.commands import Outcome, subject
from gfcr.commands.subject import Key, Subject
from gfcr.values import reading
from gfcr.values.plain import is_mapping

_COLUMN = 44
"""The column in which the remarks begin."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("subject", metavar="FILE", help="path of an experiment's or study's YAML")
    parser.add_argument("overrides", nargs="*", help="KEY=VALUE, one value each")
    parser.add_argument("--arm", help="of a study; all arms by default")
    parser.add_argument("--raw", action="store_true", help="as written: nothing is resolved")


def run(options: argparse.Namespace) -> Outcome:
    """Prints YAML that is itself the experiment file of the same run."""
    if options.raw:
        from omegaconf import OmegaConf

        loaded = configs.load(options.subject, overrides=options.overrides)
        return Outcome(
            data={"values": configs.given(loaded, where=options.subject)},
            plain=OmegaConf.to_yaml(loaded),
        )
    found = subject.experiments(options.subject, overrides=options.overrides, arm=options.arm)
    data = {
        arm: {"values": each.values, "origins": {".".join(k): w for k, w in each.origins.items()}}
        for arm, each in found.items()
    }
    text = "---\n".join(_text(each, arm=arm) for arm, each in found.items())
    return Outcome(data=data.get("") or {"arms": data}, plain=text)


def _text(found: Subject, *, arm: str) -> str:
    lines = list(_lines(found.values, (), origins=found.origins))
    return "".join(f"{line}\n" for line in ([f"# arm {arm}"] if arm else []) + lines)


def _lines(values: Mapping[str, Any], above: Key, *, origins: Mapping[Key, str]) -> Iterator[str]:
    for name, value in values.items():
        key = (*above, str(name))
        head = "  " * len(above) + reading.inline(str(name)) + ":"
        if is_mapping(value) and value:
            yield head
            yield from _lines(value, key, origins=origins)
        else:
            yield f"{f'{head} {reading.inline(value)}':{_COLUMN}}  # {origins[key]}"
