"""Draft models that learn while they draft: recovery from a shift, cold starts, bad updates.

One engine and one policy, which moves once: from the model as it is to the same model trained on
towards another task. Every arm drafts for the same requests. Arms that learn do so as in a run, in
a process beside the engine; between rounds the measurement waits for it, as long updates of the
policy would.

python -m tests.integration.draft_learning --rounds 16 > drafts.json
"""

import argparse
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, final

from gfcr import models, registry
from gfcr.bench.rounds import acceptance_length
from gfcr.engine.base import EngineConfig, EngineStats
from gfcr.speculation.lessons import Example
from gfcr.speculation.online import Online
from gfcr.tasks.chain_sum import ChainSum
from gfcr.tasks.codec import HfCodec
from gfcr.tasks.demos.chain_sum import ChainSumDemonstrations
from gfcr.types import Prompt
from tests.integration.draft_arms import (
    Stand,
    Switch,
    demonstrated,
    train_on,
    untrained,
)

GOAL: Final = 0.95
"""Of the acceptance length of a draft trained on the task."""

_SHIFTED: Final = ChainSum(max_operand=99)
_WAIT_S: Final = 300.0


@final
@dataclass(frozen=True, kw_only=True)
class Size:
    """How much is measured."""

    rounds: int = 12
    """Of each arm that learns."""
    last: int = 3
    """Rounds at the end whose mean is an arm's figure; arms that do not learn have only these."""
    requests: int = 96
    """Of a round."""
    max_tokens: int = 120
    draft_length: int = 3
    policy_steps: int = 150
    """Optimizer steps that move the policy to the other task."""
    trained_steps: int = 400
    """Optimizer steps of the draft that is trained on the other task."""
    corpus: int = 6
    """Rounds of requests that it is trained on."""
    initialisation: bool = True
    """Whether in-domain and generic beginnings are compared, before the policy moves."""


@final
@dataclass(kw_only=True)
class _Bench:
    stand: Stand
    size: Size
    scratch: Path
    say: Callable[[str], None]
    prompts: Sequence[Prompt] = ()
    arms: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def rounds(self, number: int, *, learner: Online | None = None) -> list[EngineStats]:
        """So many rounds: the same prompts in every arm."""
        made: list[EngineStats] = []
        for r in range(number):
            first = r * self.size.requests % (len(self.prompts) - self.size.requests)
            made.append(self.stand.round(self.prompts[first : first + self.size.requests]))
            if learner is not None and learner.learner is not None:
                learner.learner.wait(_WAIT_S)
        return made

    def fixed(self, arm: str, *, weights: Path) -> float:
        """Measures a draft that does not learn."""
        self.stand.switch.begin(weights)
        return self._note(arm, self.rounds(self.size.last + 1)[1:])

    def learning(self, arm: str, *, folder: Path) -> Online:
        """Measures a draft that learns, from the weights in `folder`."""
        online = self.online(folder)
        self.stand.switch.begin(folder, online=online)
        made = self.rounds(self.size.rounds, learner=online)
        self._note(arm, made, metrics=dict(online.metrics()))
        return online

    def online(self, folder: Path) -> Online:
        """The drafter under test."""
        return Online(
            model=str(folder),
            draft_length=self.size.draft_length,
            unit="requests",
            every=self.size.requests,
        )

    def _note(self, arm: str, made: Sequence[EngineStats], **more: Any) -> float:
        length = acceptance_length(made[-self.size.last :])
        curve = [round(acceptance_length([spent]), 4) for spent in made]
        self.arms[arm] = {"acceptance_length": length, "curve": curve, **more}
        self.say(f"{arm}: acceptance length {length:.3f}")
        return length


def measure(
    *,
    model: str = "demo",
    draft: str = "demo-draft",
    generic: str = "demo-draft-generic",
    seed: int = 0,
    size: Size | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measures learning drafts on chain sums, on vLLM.

    Args:
        model: the policy to begin with.
        draft: trained on the policy's task.
        generic: a draft of the same shape trained on something else.
        seed: of requests and weights.
        size: how much is measured.
        say: called with each arm's outcome.

    Returns:
        JSON-able: `arms` (acceptance length, curve by round) by name, `shift` (recovery after the
        policy has moved, `reached` against the goal), `poison`, `killed`.
    """
    size = size or Size()
    folders = {name: models.resolve(name) for name in (model, draft, generic)}
    codec = HfCodec(folders[model])
    switch = Switch(folders[draft], draft_length=size.draft_length)
    config: EngineConfig = registry.build("engine", "vllm")
    engine = config.start(model=str(folders[model]), seed=seed, drafter=switch)
    with tempfile.TemporaryDirectory(prefix="gfcr-bench-") as scratch:
        try:
            stand = Stand(engine, switch=switch, max_tokens=size.max_tokens, seed=seed)
            bench = _Bench(stand=stand, size=size, scratch=Path(scratch), say=say)
            bench.prompts = ChainSum().problems(codec).train
            if size.initialisation:
                _at_home(bench, draft=folders[draft], generic=folders[generic])
            _from_nothing(bench, draft=folders[draft], seed=seed)
            _move_policy(bench, model=folders[model], codec=codec)
            bench.prompts = _SHIFTED.problems(codec).train
            shift, online = _after_shift(bench, draft=folders[draft])
            poison = _poison(bench, online, folder=bench.scratch / "untrained")
            killed = _kill(bench, online)
        finally:
            engine.close()
    return {
        "model": model,
        "draft": draft,
        "generic": generic,
        "size": asdict(size),
        "arms": bench.arms,
        "shift": shift,
        "poison": poison,
        "killed": killed,
    }


def _at_home(bench: _Bench, *, draft: Path, generic: Path) -> None:
    bench.fixed("home/in-domain", weights=draft)
    bench.fixed("home/generic", weights=generic)
    bench.learning("home/in-domain online", folder=draft).stop()
    bench.learning("home/generic online", folder=generic).stop()


def _from_nothing(bench: _Bench, *, draft: Path, seed: int) -> None:
    cold = untrained(draft, folder=bench.scratch / "untrained", seed=seed)
    bench.fixed("home/untrained", weights=cold)
    bench.learning("home/untrained online", folder=cold).stop()


def _move_policy(bench: _Bench, *, model: Path, codec: HfCodec) -> None:
    demonstrations = ChainSumDemonstrations(task=_SHIFTED)
    examples = demonstrated(demonstrations, codec=codec, number=40 * bench.size.policy_steps)
    file = bench.scratch / "policy.safetensors"
    train_on(examples, model=model, steps=bench.size.policy_steps, lr=1e-3, file=file)
    bench.stand.load_policy(file, version=1)


def _after_shift(bench: _Bench, *, draft: Path) -> tuple[dict[str, Any], Online]:
    static = bench.fixed("shifted/static", weights=draft)
    trained = bench.fixed("shifted/trained", weights=_trained(bench, draft=draft))
    online = bench.learning("shifted/online", folder=draft)
    learnt = bench.arms["shifted/online"]["acceptance_length"]
    shares = {"static": static / trained, "online": learnt / trained}
    reached = shares["online"] >= GOAL > shares["static"]
    return {"goal": GOAL, "share_of_trained": shares, "reached": reached}, online


def _trained(bench: _Bench, *, draft: Path) -> Path:
    """A draft trained, at leisure, on what the moved policy says to other prompts of the task."""
    kept: list[Example] = []
    bench.stand.switch.begin(draft)
    bench.stand.switch.seen = kept
    first = len(bench.prompts) // 2
    every, prompts = bench.size.requests, bench.prompts
    for r in range(bench.size.corpus):
        bench.stand.round(prompts[first + r * every : first + (r + 1) * every])
    bench.stand.switch.seen = None
    file = bench.scratch / "trained.safetensors"
    train_on(kept, model=draft, steps=bench.size.trained_steps, lr=1e-3, file=file)
    return file


def _poison(bench: _Bench, online: Online, *, folder: Path) -> dict[str, Any]:
    """Offers a draft that knows nothing in the middle of a learning run."""
    before = online.metrics()["rollbacks"]
    online.offer(folder / "model.safetensors")
    made: list[EngineStats] = []
    while online.metrics()["rollbacks"] == before and len(made) < bench.size.rounds:
        made += bench.rounds(1, learner=online)
    after = bench.rounds(2, learner=online)
    return {
        "rolled_back": online.metrics()["rollbacks"] - before,
        "curve": [acceptance_length([spent]) for spent in made],
        "after": acceptance_length(after),
    }


def _kill(bench: _Bench, online: Online) -> dict[str, Any]:
    """Kills the learning process in the middle of a run."""
    learner = online.learner
    assert learner is not None and learner.pid is not None
    rounds, first = online.metrics()["rounds"], learner.pid
    os.kill(first, signal.SIGKILL)
    made = bench.rounds(3, learner=online)
    outcome = {
        "deaths": online.metrics()["learner_deaths"],
        "restarted": learner.alive and learner.pid != first,
        "learnt_since": online.metrics()["rounds"] - rounds,
        "tokens": [spent.generated_tokens for spent in made],
        "acceptance_length": acceptance_length(made),
    }
    online.stop()
    return outcome


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo", help="the policy: demo model, folder or Hub id")
    parser.add_argument("--draft", default="demo-draft", help="draft model trained on its task")
    parser.add_argument("--generic", default="demo-draft-generic", help="trained on other text")
    parser.add_argument("--rounds", type=int, default=12, help="of each draft that learns, from 4")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    outcome = measure(
        model=options.model,
        draft=options.draft,
        generic=options.generic,
        seed=options.seed,
        size=Size(rounds=options.rounds),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    print(json.dumps(outcome, indent=1))
    sys.exit(not outcome["shift"]["reached"])
