"""Episodes on a server of OpenEnv: a real one, in a process of its own."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gfcr.errors import ConfigError, GfcrError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.episode import Episode
from gfcr.strategy import Strategy
from gfcr.testing import factories as make
from gfcr.types import RolloutBatch

SERVER = Path(__file__).with_name("openenv_server.py")
SESSIONS = 4


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, SERVER, str(port), str(SESSIONS)])
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as trying:
            if trying.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.2)
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.wait(20)


def batch(url: str, text_of: Any, *, prompts: int = 2, **told: Any) -> RolloutBatch:
    from gfcr.generate.environments.openenv import Openenv

    part = Episode(environment=Openenv(url=url, **{"shown": "echo", **told}), timeout_s=20)
    maps = {"advantage": GroupAdvantage()}
    strategy = Strategy(name="t", generate=part, filters=maps, group_size=2)
    pipeline = make.pipeline(strategy, script=make.scripted(text_of), prompts=prompts)
    made = pipeline.next_batch()
    pipeline.close()
    return made


def settled(url: str, text_of: Any, *, scored: int) -> RolloutBatch:
    """A batch of which so many are scored, once the server has freed the sessions of others."""
    until = time.monotonic() + 60
    while True:
        try:
            made = batch(url, text_of)
            found = sum(r.reward is not None for g in made.groups for r in g.rollouts)
            if found == scored or time.monotonic() > until:
                return made
        except GfcrError:
            if time.monotonic() > until:
                raise
        time.sleep(0.2)


def words(request: Any) -> str:
    """The first sample says 12 and then 7, the second one 3 and then no more."""
    said = make.CODEC.decode(request.tokens).partition("=")[2][1:]
    first = "12=" if request.id.endswith("/0#0") else "3="
    return {"": first, "12==21": "7=", "3==3": "#"}[said]


@pytest.mark.whole
def test_a_session_answers_and_pays(url: str) -> None:
    for _ in range(2):  # sessions are given back: the server has as many as a batch needs
        for group in settled(url, words, scored=4).groups:
            paid, other = group.rollouts
            assert (paid.text, paid.reward) == ("12==217=", 1.0)
            assert (other.text, other.reward) == ("3==3#", 0.0)
            seeds = {r.prompt.text[-1] for r in group.rollouts}
            assert len(seeds) == 1 and paid.prompt.text[:-1] == group.prompt.text


def test_what_fails_on_the_server_is_unscorable_and_named(url: str) -> None:
    def text_of(request: Any) -> str:
        return "1+1=" if request.id.endswith("/0#0") else "7="

    for broken, whole in (g.rollouts for g in settled(url, text_of, scored=2).groups):
        assert broken.reward is None and "no sums here" in str(broken.error)
        assert whole.reward == 1.0 and whole.error is None


def test_without_a_server_every_rollout_is_unscorable_and_says_why() -> None:
    with pytest.raises(Exception, match=r"none of 4 rollouts could be scored.*Failed to connect"):
        batch("http://127.0.0.1:9", words)


def test_a_field_that_is_not_there_is_named(url: str) -> None:
    with pytest.raises(Exception, match=r"environment\.shown='said' is no field.*echo"):
        batch(url, words, **{"shown": "said"})


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from gfcr.generate.environments.openenv import Openenv

    monkeypatch.setitem(sys.modules, "openenv.core", None)
    monkeypatch.setitem(sys.modules, "openenv", None)
    with pytest.raises(
        ConfigError, match=r"openenv is not installed: pip install 'gfcr\[openenv\]'"
    ):
        Episode(environment=Openenv(url="http://127.0.0.1:9")).check(make.CODEC.encode)
