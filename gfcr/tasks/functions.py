"""Reward functions of the user's own, called as TRL or verl call them, or one by one."""

import asyncio
import inspect
import os
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from types import CodeType
from typing import Any, Final, cast, final

from gfcr import registry
from gfcr.errors import ConfigError, shown
from gfcr.handles import TURNS
from gfcr.handles.prompts import as_asked
from gfcr.tasks.base import Asked, Verdict, first_line
from gfcr.tasks.verifiers.base import ANSWERS, Scorer
from gfcr.types import Prompt

_ONE: Final = ("prompt", "completion")
_MANY: Final = ("prompts", "completions", "completion_ids")
_LOGS: Final = ("log_extra", "log_metric")
"""What TRL gives its functions to log with; what they log is not kept here."""
_VERL: Final = ("solution_str", "ground_truth")
_STATE: Final = "trainer_state"


@final
class Function(Scorer):
    """Scores by a function's numbers; None is no score, and an exception makes it unscorable.

    The function takes `prompts`, `completions` and `completion_ids` as TRL's do, lists of all that
    is to be scored, and returns a number for each; or a `prompt` and a `completion`, or verl's
    `solution_str` and `ground_truth`, and returns one number. Columns of the dataset are passed by
    name if it takes them, in TRL's form as lists, too. Any callable will do, a coroutine as well.
    """

    columns = True
    slow = True

    def __init__(self, address: str, *, options: Mapping[str, Any], where: str) -> None:
        """Loads `path/to/file.py:name` or `module:name`.

        Args:
            address: address of the function.
            options: further arguments by name.
            where: configuration key that names the function.

        Raises:
            ConfigError: it does not exist, or takes neither completions nor these options.
        """
        function = registry.load_object(address, where=where)
        if not callable(function) or inspect.isclass(function):
            raise ConfigError(f"{where}={address} is {shown(function)}: give a function.")
        taken = inspect.signature(function).parameters
        own = {n for n, p in taken.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        self._all = any(p.kind == p.VAR_KEYWORD for p in taken.values())
        self._taken = own - options.keys()
        self._verl = _VERL[0] in own
        looked_up = _constants(function) if self._all else set[str]()
        self.together = not self._verl and (_MANY[1] in own or _MANY[1] in looked_up)
        self._function = partial(function, **options)
        self._where = where
        self.address = address
        known = {*_ONE, *_MANY, *_LOGS, *_VERL, *options}
        needed = {n for n in own if taken[n].default is inspect.Parameter.empty}
        self._needed = sorted(needed - known)
        unknown = [n for n in options if n in (*_ONE, *_MANY) or not (self._all or n in own)]
        fixed = [n for n, p in taken.items() if p.kind == p.POSITIONAL_ONLY]
        scores = self.together or self._verl or _ONE[1] in own
        if _STATE in needed or _STATE in looked_up:
            raise ConfigError(
                f"{where}={address} takes '{_STATE}': a reward is a function of prompt and "
                "completion alone here, whatever the update. Give it a default, or a schedule "
                "to a part (gfcr list)."
            )
        if unknown or fixed or not scores:
            said = (
                (unknown and f"no option {unknown[0]!r}")
                or (fixed and f"{fixed[0]!r} by its place only")
                or "no completions and no completion"
            )
            raise ConfigError(
                f"{where}={address} takes {said}, but {', '.join(taken) or 'nothing'}. Give a "
                "function of `prompts, completions, **columns` that returns a list of numbers, as "
                "TRL's do, or of `prompt, completion, **columns` that returns a number."
            )

    def __reduce__(self) -> Any:
        """Loads the function anew in another process, where not all callables can be sent to."""
        place, _, name = self.address.rpartition(":")
        there = str(Path(place).resolve()) if place.endswith(".py") else place
        again = partial(Function, options=dict(self._function.keywords), where=self._where)
        return again, (f"{there}:{name}",)

    def judge(self, prompt: Prompt, *, text: str) -> Verdict:
        return self.judge_all([Asked(prompt=prompt, text=text)])[0]

    def judge_all(self, asked: Sequence[Asked]) -> list[Verdict]:
        """Calls the function with all completions, or one after another by its form."""
        if not self.together:
            return [Verdict(reward=number(self._call(self._one(each)))) for each in asked]
        given = self._call(self._many(asked))
        found = listed(given)
        if found is None or len(found) != len(asked):
            num = "one completion" if len(asked) == 1 else f"{len(asked)} completions"
            told = f"{self.address} gave {shown(given)} for {num}: give a list of as many numbers"
            return [Verdict(reward=None, error=f"VerdictError: {told}")] * len(asked)
        return [Verdict(reward=number(value)) for value in found]

    def describe(self) -> str:
        options = ", ".join(f"{n}={shown(v)}" for n, v in self._function.keywords.items())
        return f"{self.address}({options}) {first_line(self._function.func)}".strip()

    def lacks(self, columns: Collection[str]) -> str | None:
        """Returns an argument that it requires and that is no column; None if there is none."""
        missing = next((name for name in self._needed if name not in columns), None)
        return missing and f"{self.address} takes '{missing}'"

    def _many(self, asked: Sequence[Asked]) -> dict[str, Any]:
        """Returns the arguments of TRL's form: messages where prompts are conversations."""
        given: dict[str, Any] = dict.fromkeys(_LOGS, _nothing)
        for name in dict.fromkeys(name for each in asked for name in each.prompt.meta):
            given[name] = [each.prompt.meta.get(name) for each in asked]
        given["prompts"] = [as_asked(each.prompt) for each in asked]
        given["completions"] = [_answered(each) for each in asked]
        given["completion_ids"] = [[*each.tokens] for each in asked]
        return given

    def _one(self, each: Asked) -> dict[str, Any]:
        prompt = each.prompt
        if not self._verl:
            return {**prompt.meta, **dict(zip(_ONE, (prompt.text, each.text), strict=True))}
        nested: Any = prompt.meta.get("reward_model") or {}
        several: Any = prompt.meta.get(ANSWERS, ())
        truth = [*several] or prompt.answer or nested.get("ground_truth")
        return {"ground_truth": truth, **prompt.meta, "solution_str": each.text}

    def _call(self, given: Mapping[str, Any]) -> Any:
        own = self._function.keywords
        taken = {
            name: value
            for name, value in given.items()
            if name in self._taken or (self._all and name not in own and name.isidentifier())
        }
        found = self._function(**taken)
        if not inspect.isawaitable(found):
            return found

        async def awaited() -> Any:
            return await found

        return _runner(os.getpid()).run(awaited())


def _answered(each: Asked) -> Any:
    told = TURNS in each.prompt.meta
    return [{"role": "assistant", "content": each.text}] if told else each.text


def _nothing(*_: Any, **__: Any) -> None:
    """Stands for a function of TRL's that logs."""


def _constants(function: Any) -> set[str]:
    """Returns the texts in a callable's code, the keys that it looks up among them."""
    inner = inspect.unwrap(getattr(function, "func", function))
    codes = [getattr(inner, "__code__", None) or getattr(type(inner).__call__, "__code__", None)]
    found = set[str]()
    while codes:  # comprehensions have code of their own
        held: tuple[Any, ...] = getattr(codes.pop(), "co_consts", ())
        codes += [each for each in held if isinstance(each, CodeType)]
        found |= {each for each in held if isinstance(each, str)}
    return found


def listed(found: Any) -> list[Any] | None:
    """Returns what a function gave for many completions as a list; None if it is none.

    Arrays, tensors, series and generators are lists of their elements; sets have no order.
    """
    if hasattr(found, "tolist"):
        found = found.tolist()
    if isinstance(found, str | bytes | bytearray | Mapping | Set) or not isinstance(
        found, Iterable
    ):
        return None
    return list(cast("Iterable[Any]", found))


def number(value: Any) -> Any:
    """Returns a score as a number, where it holds one; anything else as it is.

    Tensors and arrays of one element are their element, in any number of dimensions, and so are
    lists of one, which arrays of several dimensions are read as. verl's mappings have a `score`.
    """
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, Mapping):
        held = cast("Mapping[str, Any]", value)
        return number(held["score"]) if "score" in held else held
    if isinstance(value, list):
        values = cast("list[Any]", value)
        return number(values[0]) if len(values) == 1 and not isinstance(values[0], str) else values
    elements = value.numel() if hasattr(value, "numel") else getattr(value, "size", 0)
    return value.item() if elements == 1 else value


@cache
def _runner(process: int) -> asyncio.Runner:
    """Returns the event loop for all calls of a process, to which a module's clients are bound."""
    return asyncio.Runner()
