"""Reads and writes YAML: plain values, as written; `gfcr.values.types` says which are allowed.

Scalars follow YAML 1.2's core: `1e-9` is a number; `no`, `012` and `1:30` are text. Keys are text
and occur once. `${...}` is text too: `gfcr.values.interpolation` resolves it.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import yaml

from gfcr.errors import ConfigError, near_file, shown

MOST_DEPTH: Final = 24

_SCALARS: Final = {
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "int": (r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    "float": (
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    "merge": (r"<<", "<"),
}


# libyaml's parser takes an eighth of the time; every wheel of PyYAML has it.
if TYPE_CHECKING or not yaml.__with_libyaml__:
    from yaml import SafeLoader
else:
    from yaml import CSafeLoader as SafeLoader


class _Loader(SafeLoader):
    yaml_implicit_resolvers: ClassVar[Any] = {}

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """Builds a mapping with keys as written, and refuses a key that occurs twice."""
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.MarkedYAMLError(None, None, "a key is no text", key.start_mark)
            if key.value in seen:
                raise yaml.MarkedYAMLError(None, None, f"{key.value!r} twice", key.start_mark)
            if key.tag != "tag:yaml.org,2002:merge":
                key.tag = "tag:yaml.org,2002:str"
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


class _Dumper(yaml.SafeDumper):
    """Quotes text that this module would read as another type."""

    # libyaml reads these as ends of lines where they are not escaped, PyYAML writes them as such.
    breaks: ClassVar[str] = "\x85\u2028\u2029"

    def ignore_aliases(self, data: Any) -> bool:
        """Writes a value that occurs twice in full each time, without anchor and alias."""
        return True

    def text(self, text: str) -> Any:
        """Writes text; what would break a line stands escaped, in double quotes."""
        style = '"' if set(text) & set(self.breaks) else None
        own: Any = self  # partially typed
        return own.represent_scalar("tag:yaml.org,2002:str", text, style=style)


class _OneLine(_Dumper):
    breaks: ClassVar[str] = "\n\x85\u2028\u2029"


_Dumper.add_representer(str, _Dumper.text)

for _name, (_pattern, _first) in _SCALARS.items():
    for _class in (_Loader, _Dumper):
        _resolver = (f"tag:yaml.org,2002:{_name}", re.compile(f"^(?:{_pattern})$"), list(_first))
        _class.add_implicit_resolver(*_resolver)  # pyright: ignore[reportUnknownMemberType]


def read(path: Path) -> Any:
    """Reads a YAML file.

    Raises:
        ConfigError: it is missing, no file, not UTF-8, no YAML, or too deep.
    """
    try:
        if not path.is_file():
            kind = "a folder." if path.is_dir() else f"no such file.{near_file(path)}"
            raise ConfigError(f"{path}: {kind} Give the path of a YAML file or of a run's folder.")
        text = path.read_bytes().decode()
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{shown(str(path))} cannot be read as text: {error}.") from error
    return parse(text, where=str(path))


def parse(text: str, *, where: str) -> Any:
    """Reads YAML text; errors as `read`."""
    try:
        values = yaml.load(text, Loader=_Loader)  # a SafeLoader
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError) as error:
        # The last three: PyYAML, of `!!int ''`, `!!bool x`, `!!timestamp x`.
        at: Any = getattr(error, "problem_mark", None)
        open_ = at is not None and "${" in "".join(text.splitlines()[at.line : at.line + 1])
        hint = "; within braces and brackets, `${...}` is quoted" if open_ else ""
        raise ConfigError(f"{where} is not valid YAML: {error}{hint}") from error
    except RecursionError as error:
        raise _too_deep(where) from error
    _check_depth(values, where=where, depth=0)
    return values


def lines(path: Path) -> dict[tuple[str, ...], int]:
    """Returns the line number of each key of a valid YAML file, by the keys that lead to it.

    A value from an alias has the line of its anchor.
    """
    loader = _Loader(path.read_bytes().decode())
    try:
        top = loader.get_single_node()  # pyright: ignore[reportUnknownMemberType]
        return dict(_lines(loader, top, ()))
    finally:
        loader.dispose()  # pyright: ignore[reportUnknownMemberType]


def _lines(
    loader: _Loader, node: Any, above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], int]]:
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)  # pyright: ignore[reportUnknownMemberType]
        for key, value in cast("list[tuple[Any, Any]]", node.value):
            place = (*above, str(key.value))
            yield place, key.start_mark.line + 1
            yield from _lines(loader, value, place)


def write(values: Mapping[str, Any], *, flow: bool | None = False) -> str:
    """Returns YAML text that `parse` reads as the same values."""
    return _dumped(values, by=_Dumper, width=100, flow=flow)


def inline(value: Any) -> str:
    """Returns one line of YAML."""
    text = _dumped({"k": value}, by=_OneLine, width=1_000_000, flow=True).strip()
    return text.removeprefix("{k: ").removesuffix("}")


def has_comment(text: str) -> bool:
    """Tells whether valid YAML text has a comment."""
    tokens: list[Any] = [*yaml.scan(text, Loader=_Loader)]  # pyright: ignore[reportUnknownMemberType]
    return any("#" in text[a.end_mark.index : b.start_mark.index] for a, b in pairwise(tokens))


def _dumped(values: Mapping[str, Any], *, by: type[_Dumper], width: int, flow: bool | None) -> str:
    return yaml.dump(
        dict(values),
        Dumper=by,
        sort_keys=False,
        allow_unicode=True,
        width=width,
        default_flow_style=flow,
    )


def _check_depth(value: Any, *, where: str, depth: int) -> None:
    if depth > MOST_DEPTH:
        raise _too_deep(where)
    if isinstance(value, dict | list):
        items = cast("dict[str, Any] | list[Any]", value)
        for key, inner in items.items() if isinstance(items, dict) else enumerate(items):
            place = f"{where}: {key}" if depth == 0 else f"{where}.{key}"
            _check_depth(inner, where=place, depth=depth + 1)


def _too_deep(where: str) -> ConfigError:
    return ConfigError(f"{where[:300]} has more than {MOST_DEPTH} levels: write it flat.")
