"""A real server of OpenEnv: it answers with the words backwards, and pays for sevens."""

import sys
from typing import Any

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Said(Action):
    message: str


class Heard(Observation):
    echo: str = ""


class Echo(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()

    def reset(self, seed: int | None = None, **_: Any) -> Heard:
        return Heard(echo=str((seed or 0) % 10))

    def step(self, action: Said, **_: Any) -> Heard:
        if "+" in action.message:
            raise RuntimeError("no sums here")
        paid = "7" in action.message
        return Heard(echo=action.message[::-1], reward=float(paid), done=paid)

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(Echo, Said, Heard, max_concurrent_envs=int(sys.argv[2]))
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
