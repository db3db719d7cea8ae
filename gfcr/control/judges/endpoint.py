"""A judge behind an address: vLLM, a hosted model, anything with OpenAI's API."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, final

from annotated_types import Interval, Len

from gfcr.code.optional import load
from gfcr.control.judges.base import Answer, Judge
from gfcr.control.judges.line import line_to
from gfcr.errors import ConfigError, shown
from gfcr.stages import Scratch
from gfcr.values.ranges import Count, File, NonNegative, Positive, Temperature, Word


@final
@dataclass(frozen=True, kw_only=True)
class Endpoint(Judge):
    """Asks a model at an OpenAI-compatible address while the engine goes on decoding.

    Connection errors, time-outs, 429, 5xx and garbled replies are tried again after
    backoff_s * 2^k * U(1/2, 1), or what Retry-After asks for if that is longer, within `attempts`
    and `total_s`; then the question has no answer. Where nobody was answered meanwhile, the
    endpoint rests for `rest_s`: questions then fail at once, so that a dead one costs bounded time.

    Hurts when it is slower than generation (groups wait for it), and answers change with the model
    behind the address: nothing here pins it.
    """

    origin: ClassVar[str] = "ours"
    libraries: ClassVar[tuple[str, ...]] = ("openai",)

    model: Word
    """As the endpoint calls it."""
    url: Annotated[File, Len(1, 2_000)] = "http://127.0.0.1:8000/v1"
    """Base address, to which `/chat/completions` is added."""
    key_env: Word = ""
    """Environment variable that holds the key; empty sends none."""
    api: Literal["chat", "completions"] = "chat"
    """`completions` for models without a chat template."""
    max_tokens: Count = 512
    """Of an answer; one that is cut there is none."""
    temperature: Temperature = 0.0
    concurrency: Annotated[int, Interval(ge=1, le=1024)] = 16
    """Questions at a time."""
    attempts: Annotated[int, Interval(ge=1, le=100)] = 5
    timeout_s: Positive = 60.0
    """Of one attempt."""
    total_s: Positive = 180.0
    """Of a question with all its attempts and waits."""
    backoff_s: NonNegative = 0.5
    """First wait, doubled with each attempt."""
    rest_s: NonNegative = 60.0

    async def ask(self, questions: Sequence[str], scratch: Scratch) -> Sequence[Answer]:
        """See `Judge.ask`.

        Raises:
            ConfigError: no key, no library, or an address that has refused us from the start.
        """
        load("openai")
        line = line_to(self, key=self._key(), process=os.getpid())
        answers: list[Answer] = await scratch.call(line.ask, questions)
        refused = next((a for a in answers if a.failed == "refused"), None)
        if refused and not line.answered:
            raise ConfigError(
                f"judge.url={shown(self.url)} with judge.model={shown(self.model)} refuses every "
                f"question: {refused.said}. Give the model by the name that {self.url}/models "
                "lists, and the name of the environment variable with its key as judge.key_env."
            )
        return answers

    def _key(self) -> str:
        if self.key_env and not os.environ.get(self.key_env):
            raise ConfigError(
                f"judge.key_env={shown(self.key_env)}: there is no such environment variable, or "
                "it is empty. Set it where the run is started, or leave key_env empty."
            )
        return os.environ[self.key_env] if self.key_env else ""
