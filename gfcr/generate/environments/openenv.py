"""Environments of OpenEnv, behind an address."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, final

from annotated_types import Len

from gfcr.code.optional import load
from gfcr.errors import shown
from gfcr.generate.environments.base import Environment, Observation, World
from gfcr.handles import Verdict
from gfcr.types import Prompt
from gfcr.values.ranges import File, Positive, Word


@final
@dataclass(frozen=True, kw_only=True)
class Openenv(Environment):
    """A server of OpenEnv: each episode is a session of its own on it.

    An action is sent as `{action: text}`; what is seen is the observation's field `shown`, or all
    of it as JSON. The episode is worth the sum of its steps' rewards, and unscorable without any.
    `reset` is given the seed of the group.

    Hurts where the server takes fewer sessions than a batch has episodes: those beyond fail.
    """

    origin: ClassVar[str] = "ours"
    libraries: ClassVar[tuple[str, ...]] = ("openenv.core",)

    url: Annotated[File, Len(1, 2_000)]
    """Address of the server, `http://...`."""
    action: Annotated[Word, Len(1, 200)] = "message"
    """Field of the server's action that the text is."""
    shown: Word = ""
    """Field of its observation that the policy sees; empty shows all."""
    timeout_s: Positive = 60.0
    """Of one answer of the server; `episode.timeout_s` bounds it too."""

    def check(self) -> None:
        load("openenv.core")

    def make(self) -> World:
        return _Session(self)


@final
class _Session(World):
    def __init__(self, told: Openenv) -> None:
        client: Any = load("openenv.core").GenericEnvClient
        self._told, self._rewards = told, list[float]()
        self._client = client(base_url=told.url, message_timeout_s=told.timeout_s).sync()

    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        self._client.connect()
        return self._seen(self._client.reset(seed=seed))

    def act(self, action: str) -> Observation:
        return self._seen(self._client.step({self._told.action: action}))

    def verdict(self, last: str) -> Verdict | None:
        if not self._rewards:
            return Verdict(reward=None, error="the server gave no step a reward")
        return Verdict(reward=sum(self._rewards))

    def close(self) -> None:
        self._client.close()

    def _seen(self, result: Any) -> Observation:
        reward = None if result.reward is None else float(result.reward)
        if reward is not None:
            self._rewards.append(reward)
        seen: Mapping[str, Any] = result.observation
        if self._told.shown and self._told.shown not in seen:
            told = f"environment.shown={shown(self._told.shown)}"
            raise KeyError(f"{told} is no field of what is observed: {', '.join(seen)}")
        text = seen[self._told.shown] if self._told.shown else seen
        said = text if isinstance(text, str) else json.dumps(text)
        return Observation(text=said, done=bool(result.done), reward=reward)
