"""An experiment with its parts made from their names, its identity and its folder."""

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.code import sources
from gfcr.config import Experiment
from gfcr.engine.base import EngineConfig
from gfcr.experiment.provenance import card_of, code_tags
from gfcr.experiment.stock import with_order
from gfcr.schedule.base import Schedule
from gfcr.stages import Generate
from gfcr.strategy import Strategy
from gfcr.tasks.base import Task
from gfcr.tracking.base import RunCard, Tracker
from gfcr.train.base import TrainerConfig
from gfcr.types import Sampling


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """An experiment with its parts made from their names."""

    config: Experiment
    strategy: Strategy
    task: Task
    engine: EngineConfig
    trainer: TrainerConfig
    schedule: Schedule
    tracker: Tracker
    generate: Generate
    """The Generate part that answers the held-out prompts."""
    spec: dict[str, Any]
    """Every part with every value, by which the leaderboard identifies it."""

    @property
    def run_id(self) -> str:
        """Stable hash of what decides the outcome: spec, seed and study, not folder or tracker."""
        # The order of keys in a file must not make another run of it.
        text = json.dumps(self.spec, sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()

    @property
    def folder(self) -> Path:
        """The run folder."""
        config = self.config
        name = f"seed-{config.seed}-{self.run_id}"
        return Path(config.folder) / config.study / config.name / name

    def card(self) -> RunCard:
        """Returns the run's card: its identity, with versions, commit and code."""
        return card_of(self.config, spec=self.spec, run_id=self.run_id, code=self.code())

    def code(self) -> dict[str, str]:
        """Returns digests of the present files of code outside gfcr, and of the code that asks."""
        asking = [
            part for own in (self.task, self.generate) for part in registry.nested(own).values()
        ]
        asked = [self.spec["task"], self.spec["evaluation"]["generate"]]
        function = strategies.find(str(self.config.strategy["name"]))
        own = (self.engine, self.trainer, self.schedule, self.tracker)
        rest = [part for each in own for part in registry.nested(each).values()]
        return code_tags(
            [function, *self.strategy.parts.values(), *asking, *rest],
            spec=self.spec,
            asking=sources.asking(sources.roots(asking, spec=asked)),
        )


def resolve(config: Experiment) -> Resolved:
    """Makes every part of an experiment; nothing heavy is imported.

    Raises:
        ConfigError: a name, key or value is not allowed.
    """
    knobs = dict(config.strategy)
    strategy = strategies.load(str(knobs.pop("name")), **knobs)
    parts = {
        "task": registry.build("task", config.task, where="task"),
        "engine": registry.build("engine", config.engine, where="engine"),
        "trainer": registry.build("trainer", config.trainer, where="trainer"),
    }
    schedule = registry.build("schedule", config.schedule, where="schedule")
    generate = registry.build("generate", config.evaluation.generate, where="evaluation.generate")
    spec = {
        "study": config.study,
        "arm": config.name,
        "seed": config.seed,
        "model": config.model,
        "prompts": config.prompts,
        **{kind: registry.spec(kind, part) for kind, part in parts.items()},
        # Runs in turn are what they were before there was another way.
        **({"schedule": registry.spec("schedule", schedule)} if schedule.overlaps else {}),
        "strategy": with_order(strategy.spec()),
        "sampling": _sampled(config.sampling),
        "budget": asdict(config.budget),
        "evaluation": {
            **asdict(config.evaluation),
            "sampling": _sampled(config.evaluation.sampling),
            "generate": registry.spec("generate", generate),
        },
    }
    return Resolved(
        config=config,
        strategy=strategy,
        tracker=registry.build("tracking", config.tracking, where="tracking"),
        schedule=schedule,
        generate=generate,
        spec=spec,
        **parts,
    )


def _sampled(sampling: Sampling) -> dict[str, Any]:
    """Returns a sampling as plain values; one without stops is what it was before there were."""
    values: dict[str, Any] = json.loads(json.dumps(asdict(sampling)))
    stops = sampling.stop or sampling.stop_token_ids
    return values if stops else {k: v for k, v in values.items() if "stop" not in k}
