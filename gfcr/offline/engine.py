"""An engine, a codec, a verifier and a prompt stream that serve a log in place of a model.

Requests that name sample i of a group get the log's i-th rollout of that prompt. The clock is that
of unlimited slots: every running request gains as many tokens as the others, so that groups end in
the order of their longest rollout.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, final

from gfcr.engine.base import Delta, EngineStats, Request, Weights
from gfcr.offline.log import Log, LoggedUpdate, Unanswerable
from gfcr.tasks.base import Codec, Problems, Task, Verdict
from gfcr.tracking.looked_at import rewards_of
from gfcr.types import FinishReason, Group, Prompt, Rollout

_UNBOUNDED = 1 << 30


@dataclass(kw_only=True)
class _Playing:
    rollout: Rollout
    at: int = 0

    @property
    def left(self) -> int:
        return len(self.rollout) - self.at


@final
class LogEngine:
    """Serves the rollouts of a log, see `engine.base.Engine`; refuses what it cannot serve.

    Args:
        log: the recorded rollouts.
        askers: addresses of the parts that may ask for more samples than a group's first ones.
    """

    def __init__(self, log: Log, *, askers: Sequence[str]) -> None:
        self._log = log
        self._askers = ", ".join(askers) or "group_size"
        self._playing: dict[str, _Playing] = {}
        self._free: dict[str, deque[Group]] = {}
        self._taken: dict[str, Group] = {}
        self._stats = EngineStats()
        self.version = self._step = 0
        self.max_length = _UNBOUNDED
        self.served: list[Rollout] = []
        """Recorded rollouts begun in this update, at their full length."""

    def begin(self, update: LoggedUpdate) -> None:
        """Switches to an update of the log."""
        self._step, self.version = update.step + 1, update.version
        self._free, self._taken, self.served = {}, {}, []
        for group in update.groups:
            self._free.setdefault(group.prompt.id, deque()).append(group)

    def submit(self, request: Request) -> None:
        """See `Engine.submit`.

        Raises:
            Unanswerable: the log has no such rollout.
        """
        rollout = self._find(request)
        self.served.append(rollout)
        self._playing[request.id] = _Playing(rollout=rollout)

    def step(self) -> Sequence[Delta]:
        """Advances every request by the tokens that the shortest still lacks."""
        num = min((p.left for p in self._playing.values()), default=0)
        deltas = [self._advance(id, num) for id in list(self._playing)]
        self._stats += EngineStats(forward_passes=num, generated_tokens=num * len(deltas))
        return deltas

    def abort(self, request_ids: Iterable[str]) -> None:
        for id in request_ids:
            self._playing.pop(id, None)

    def limit(self, request_id: str, *, max_tokens: int) -> None:
        """Refuses, since truncated text was never scored."""
        raise Unanswerable(f"a cap of {max_tokens} tokens in decoding leaves text without score.")

    def score(self, sequences: Sequence[Sequence[int]], **asked: Any) -> NoReturn:
        """Refuses, since there is no policy to ask."""
        raise Unanswerable("log-probabilities under the current policy are not in the log.")

    def update_weights(self, weights: Weights, *, version: int) -> None:
        """Does nothing: `begin` sets the version."""

    def stats(self) -> EngineStats:
        return self._stats

    def close(self) -> None:
        """Does nothing."""

    def _advance(self, id: str, num: int) -> Delta:
        playing = self._playing[id]
        rollout, at = playing.rollout, playing.at
        playing.at += num
        finish = None
        if not playing.left:
            length = rollout.finish == FinishReason.LENGTH
            finish = FinishReason.LENGTH if length else FinishReason.STOP
            del self._playing[id]
        return Delta(
            request_id=id,
            tokens=tuple(rollout.tokens_T[at : at + num].tolist()),
            logprobs=tuple(rollout.logprobs_T[at : at + num].tolist()),
            version=self.version,
            finish=finish,
        )

    def _find(self, request: Request) -> Rollout:
        index = request.slot.removeprefix("/")
        if not index.isdecimal():
            raise Unanswerable(f"{index}: what a part asks on the side is not in the log.")
        group = self._group(request)
        if int(index) >= len(group.rollouts):
            raise Unanswerable(
                f"update {self._step}: {self._askers} asks for rollout {int(index) + 1} of prompt "
                f"{group.prompt.id}, and {len(group.rollouts)} are recorded. Record a larger "
                "group, or ask for less."
            )
        self._check(request, group.rollouts[int(index)])
        return group.rollouts[int(index)]

    def _group(self, request: Request) -> Group:
        """Returns the recorded group from which a group of the strategy is served."""
        group_id = request.id.rpartition("#")[0].removesuffix(request.slot)
        if group_id not in self._taken:
            if not (free := self._free.get(request.prompt_id)):
                raise Unanswerable(
                    f"update {self._step}: {self._askers} begins prompt {request.prompt_id}, which "
                    "the log does not hold (again) in this update."
                )
            self._taken[group_id] = free.popleft()
        return self._taken[group_id]

    def _check(self, request: Request, rollout: Rollout) -> None:
        asked, recorded = request.sampling, self._log.sampling
        if len(request.tokens) > len(rollout.prompt.tokens):
            raise Unanswerable(
                f"update {self._step}: a rollout of prompt {rollout.prompt.id} is to be continued "
                "under a later policy: how it goes on is not in the log."
            )
        if replace(asked, max_tokens=recorded.max_tokens) != recorded:
            raise Unanswerable(f"sampling with {asked} was not recorded, only {recorded}.")
        if not len(rollout) <= asked.max_tokens <= recorded.max_tokens:
            raise Unanswerable(
                f"a cap of {asked.max_tokens} tokens: rollout {rollout.id} was scored at "
                f"{len(rollout)} tokens under a cap of {recorded.max_tokens}."
            )


@final
class LogCodec(Codec):
    """Decodes the log's completions and cannot encode new text, see `tasks.base.Codec`."""

    def __init__(self) -> None:
        self._texts: dict[tuple[int, ...], str] = {}

    @property
    def eos_id(self) -> int:
        """No token: what has ended in the log has ended, whatever its last token."""
        return -1

    def begin(self, update: LoggedUpdate) -> None:
        """Switches to an update of the log."""
        rollouts = [r for g in update.groups for r in g.rollouts]
        self._texts = {tuple(r.tokens_T.tolist()): r.text for r in rollouts}

    def prompt(self, text: str) -> tuple[int, ...]:
        """Refuses, since new prompts are not in the log."""
        raise Unanswerable("new prompts are not in the log.")

    def encode(self, text: str) -> tuple[int, ...]:
        """Refuses, since text from outside is not in the log."""
        raise Unanswerable("text from outside (hints, tool results) is not in the log.")

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns a recorded completion's text; empty for one cut short, which is not scored."""
        return self._texts.get(tuple(tokens), "")


@final
@dataclass(kw_only=True)
class LogTask(Task):
    """Gives the verdicts that were recorded."""

    verdicts: dict[tuple[str, str], deque[Verdict]] = field(default_factory=dict[Any, Any])
    """The recorded verdicts, by prompt id and text, in the order of the rollouts."""

    def begin(self, update: LoggedUpdate) -> None:
        """Switches to an update of the log."""
        self.verdicts = {}
        for group, rollout in ((g, r) for g in update.groups for r in g.rollouts):
            scores = rewards_of(rollout)
            verdict = Verdict(reward=rollout.reward, error=rollout.error, scores=scores)
            self.verdicts.setdefault((group.prompt.id, rollout.text), deque()).append(verdict)

    def problems(self, codec: Codec) -> Problems:
        """Refuses, since prompts come from the log."""
        raise Unanswerable("new prompts are not in the log.")

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        held = self.verdicts[prompt.id, text]
        held.rotate(-1)  # a judge may have scored equal answers differently: each in its turn
        return held[-1]


@final
class LogStream:
    """Gives an update's prompts in the order they were begun, see `stream.Prompts`."""

    def __init__(self, *, askers: Sequence[str]) -> None:
        self._askers = ", ".join(askers) or "--prompts"
        self._prompts: deque[Prompt] = deque()
        self._num = self._step = 0

    @property
    def num_prompts(self) -> int:
        """Refuses, since a log has the prompts that were asked alone."""
        raise Unanswerable("the number of training prompts is not in the log.")

    def begin(self, update: LoggedUpdate) -> None:
        """Switches to an update of the log."""
        self._prompts = deque(g.prompt for g in update.groups)
        self._num, self._step = len(self._prompts), update.step + 1

    def draw(self, num: int) -> list[Prompt]:
        """See `Prompts.draw`.

        Raises:
            Unanswerable: the update's prompts are used up.
        """
        if num > len(self._prompts):
            raise Unanswerable(
                f"update {self._step}: {self._askers} asks for more than the {self._num} prompts "
                "recorded. Train on fewer groups an update (--prompts), or record more."
            )
        return [self._prompts.popleft() for _ in range(num)]

    def put_back(self, prompts: Sequence[Prompt]) -> None:
        self._prompts.extendleft(reversed(prompts))

    def state_dict(self) -> dict[str, Any]:
        """Returns nothing, as logs are not resumed."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Does nothing, as logs are not resumed."""
