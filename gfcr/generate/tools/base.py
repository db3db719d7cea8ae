"""What a tool is, and how one is found by name: one file per tool."""

import importlib
import inspect
import pkgutil
from abc import ABC, abstractmethod
from typing import ClassVar, final

from gfcr.errors import ConfigError, shown, unknown_name

_PACKAGE = "gfcr.generate.tools"


@final
class ToolError(ValueError):
    """The policy called a tool with something it cannot answer: the policy's mistake, not ours."""


class Tool(ABC):
    """Answers what the policy wrote. Made without arguments; the file name is the name."""

    slow: ClassVar[bool] = False
    """True runs `answer` in a thread beside the loop: network, subprocess, sleep."""

    @abstractmethod
    def answer(self, text: str) -> str:
        """Returns the text to append behind `text`, the completion so far, stop text included.

        A function of it: a tool outside gfcr is imported anew for each evaluation.

        Raises:
            ToolError: the call makes no sense.
        """


def tool_names() -> list[str]:
    """Names of the tools that come with gfcr."""
    package = importlib.import_module(_PACKAGE)
    return sorted(m.name for m in pkgutil.iter_modules(package.__path__) if m.name != "base")


def load_tool(name: str) -> Tool:
    """Makes the tool called `name`, or `package.module:Class`.

    Raises:
        ConfigError: there is no such tool.
    """
    if ":" not in name and name not in tool_names():
        raise unknown_name(name, kind="tool", allowed=tool_names())
    if ":" not in name:
        name = f"{_PACKAGE}.{name}:{name.title().replace('_', '')}"
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(
            f"tool '{name}' cannot be loaded: {error}. Give {', '.join(tool_names())} or "
            "`package.module:Class`."
        ) from error
    if not (inspect.isclass(found) and issubclass(found, Tool)) or inspect.isabstract(found):
        raise ConfigError(
            f"tool {shown(name)} is none: give a class that inherits {__name__}.Tool."
        )
    return found()
