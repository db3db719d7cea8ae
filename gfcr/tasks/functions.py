"""Reward functions of the user's own, called as TRL calls them."""

import asyncio
import inspect
import os
from collections.abc import Collection, Mapping
from functools import cache, partial
from typing import Any, Final, final

from gfcr import registry
from gfcr.errors import ConfigError, shown
from gfcr.tasks.base import Verdict, first_line
from gfcr.tasks.verifiers.base import Scorer
from gfcr.types import Prompt

_ONE: Final = ("prompt", "completion")
_MANY: Final = ("prompts", "completions")


@final
class Function(Scorer):
    """Scores by a function's number; None is no score, and an exception makes it unscorable.

    The function takes `prompts` and `completions` like TRL's, as lists of one, and returns a list
    of one number; or a `prompt` and a `completion`, and returns a number. Columns of the dataset
    are passed by name if it takes them (in TRL's form as lists, too). A coroutine is `slow`.
    """

    columns = True

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
        if not (inspect.isfunction(function) or inspect.ismethod(function)):
            raise ConfigError(f"{where}={address} is {shown(function)}: give a function.")
        taken = inspect.signature(function).parameters
        own = {n for n, p in taken.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        self._all = any(p.kind == p.VAR_KEYWORD for p in taken.values())
        self._taken = own - options.keys()
        self._many = _MANY[1] in own
        self._function = partial(function, **options)
        self.slow = inspect.iscoroutinefunction(function)
        self.address = address
        needed = {n for n in own if taken[n].default is inspect.Parameter.empty}
        self._needed = sorted(needed - {*_ONE, *_MANY} - options.keys())
        unknown = [n for n in options if n in (*_ONE, *_MANY) or not (self._all or n in own)]
        fixed = [n for n, p in taken.items() if p.kind == p.POSITIONAL_ONLY]
        if unknown or fixed or not {_ONE[1], _MANY[1]} & own:
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

    def judge(self, prompt: Prompt, *, text: str) -> Verdict:
        """Calls the function with one completion."""
        names = _MANY if self._many else _ONE
        given = {**prompt.meta, **dict(zip(names, (prompt.text, text), strict=True))}
        taken = {n: v for n, v in given.items() if n in self._taken or self._all_but(n)}
        if not self._many:
            return Verdict(reward=self._call(**taken))
        found = self._call(**{name: [value] for name, value in taken.items()})
        found = found.tolist() if hasattr(found, "tolist") else found
        if not isinstance(found, list | tuple) or len(found) != 1:  # pyright: ignore[reportUnknownArgumentType] # the user's
            told = f"{self.address} gave {shown(found)} for one completion: give a list of one"  # pyright: ignore[reportUnknownArgumentType]
            return Verdict(reward=None, error=f"VerdictError: {told}")
        return Verdict(reward=found[0])  # pyright: ignore[reportUnknownArgumentType]

    def describe(self) -> str:
        """Describes the function with its options, by its docstring."""
        options = ", ".join(f"{n}={shown(v)}" for n, v in self._function.keywords.items())
        return f"{self.address}({options}) {first_line(self._function.func)}".strip()

    def lacks(self, columns: Collection[str]) -> str | None:
        """Returns an argument that it requires and that is no column; None if there is none."""
        missing = next((name for name in self._needed if name not in columns), None)
        return missing and f"{self.address} takes '{missing}'"

    def _all_but(self, name: str) -> bool:
        return self._all and name not in self._function.keywords

    def _call(self, **given: Any) -> Any:
        found = self._function(**given)
        if not inspect.isawaitable(found):
            return found

        async def awaited() -> Any:
            return await found

        return _runner(os.getpid()).run(awaited())


@cache
def _runner(process: int) -> asyncio.Runner:
    """Returns the event loop for all calls of a process, to which a module's clients are bound."""
    return asyncio.Runner()
