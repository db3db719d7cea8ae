"""Reward functions of the user's own, called as TRL calls them."""

import asyncio
import inspect
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, final

from gfcr import registry
from gfcr.errors import ConfigError, shown
from gfcr.tasks.base import Verdict, first_line
from gfcr.types import Prompt


@final
class Function:
    """A function's number; None of it is no score, and what it raises makes one unscorable.

    It takes `prompts` and `completions` as TRL's do, lists of one each, and gives a list of one
    number; or a `prompt` and a `completion`, and gives a number. Of the dataset's columns it is
    given those that it takes, all by name, and the same with TRL's lists. It may be a coroutine.
    """

    slow = False

    def __init__(self, address: str, *, options: Mapping[str, Any], where: str) -> None:
        """Loads `path/to/file.py:name` or `module:name`.

        Args:
            address: of the function.
            options: further arguments, by name.
            where: the key that names it.

        Raises:
            ConfigError: there is none, or it takes neither completions nor these options.
        """
        function = registry.load_object(address)
        if not callable(function) or inspect.isclass(function):
            raise ConfigError(f"{where}={address} is {shown(function)}: give a function.")
        taken = inspect.signature(function).parameters
        self._all = any(p.kind == p.VAR_KEYWORD for p in taken.values())
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        self._taken = {name for name, p in taken.items() if p.kind in by_name}
        self._many = "completions" in self._taken
        self._function = partial(function, **options)
        self.address = address
        unknown = [] if self._all else [name for name in options if name not in taken]
        if unknown or not {"completions", "completion"} & self._taken:
            said = f"no argument {unknown[0]!r}" if unknown else "no completions and no completion"
            raise ConfigError(
                f"{where}={address} takes {said}, but {', '.join(taken) or 'nothing'}. Give a "
                "function of `prompts, completions, **columns` that returns a list of numbers, as "
                "TRL's do, or of `prompt, completion, **columns` that returns a number."
            )

    def judge(self, prompt: Prompt, *, text: str) -> Verdict:
        """Calls the function with one completion."""
        own = {"prompt": prompt.text, "completion": text}
        if self._many:
            own = {f"{name}s": value for name, value in own.items()}
        given = {**prompt.meta, **own}
        taken = {name: v for name, v in given.items() if self._all or name in self._taken}
        if not self._many:
            return Verdict(reward=self._call(**taken))
        found = list(self._call(**{name: [value] for name, value in taken.items()}))
        if len(found) != 1:
            told = f"{self.address} gave {shown(found)} for one completion: give a list of one"
            return Verdict(reward=None, error=f"VerdictError: {told}")
        return Verdict(reward=found[0])

    def describe(self) -> str:
        """What it does, with its options."""
        return f"{self.address} {first_line(self._function.func)}".strip()

    def check(self, answer: str) -> str | None:
        """Any answer will do, and none."""
        return None

    def _call(self, **given: Any) -> Any:
        found = self._function(**given)
        if not inspect.isawaitable(found):
            return found

        async def awaited() -> Any:
            return await found

        # In a thread: a notebook has a loop of its own running in this one.
        with ThreadPoolExecutor(max_workers=1) as one:
            return one.submit(asyncio.run, awaited()).result()
