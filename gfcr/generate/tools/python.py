"""A program that the policy wrote, run in a sandbox."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from annotated_types import Interval

from gfcr.errors import ConfigError
from gfcr.generate.tools.base import Call, Opening, Tool, behind, cut
from gfcr.sandbox.box import Box, Outcome, why_not
from gfcr.sandbox.spec import Limits
from gfcr.values.fenced import last_block
from gfcr.values.ranges import Count


@final
@dataclass(kw_only=True)
class Python(Tool):
    """Runs the last program of the completion in a sandbox and gives what it printed.

    The program is what stands behind the last `opening`, or the last fenced block in it. One that
    fails is answered with the last line of its error, one that is killed with the reason; answers
    have `most_chars` characters and `...` at most. It sees the standard library, no file of ours,
    no network and nothing of an earlier call.

    Give the part that calls it a stop text that is in no program, such as
    `</tool_call>` with a Qwen model. Each call starts a process, a tenth of a second and up. Where
    the sandbox itself fails, the rollout is unscorable.
    """

    paper: ClassVar[str] = "2505.07773"
    origin: ClassVar[str] = "ours"
    slow: ClassVar[bool] = True

    opening: Opening = "<tool_call>"
    seconds: Annotated[float, Interval(gt=0, le=3600)] = 5.0
    memory_mib: Annotated[int, Interval(ge=64, le=1_000_000)] = 512
    most_chars: Count = 1000
    fallback: bool = False
    """Where namespaces are not permitted, makes do with seccomp: programs can then read files."""

    def check(self) -> None:
        if why := why_not(fallback=self.fallback):
            raise ConfigError(f"python.fallback={self.fallback}: {why}")

    def answer(self, call: Call) -> str:
        program = last_block(behind(call.text, opening=self.opening))
        limits = Limits(seconds=self.seconds, memory_mib=self.memory_mib)
        with Box(program, limits=limits, fallback=self.fallback) as box:
            return cut(self._said(box.finish()), most=self.most_chars)

    def _said(self, outcome: Outcome) -> str:
        if outcome.ended == "timeout":
            return f"TimeoutError: killed after {self.seconds:g} s"
        printed = outcome.output.decode(errors="replace").rstrip()
        if outcome.ended == "output":
            return f"{printed}..."
        if outcome.code == 0:
            return printed
        lines = outcome.errors.decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), f"exit {outcome.code}")
