"""What is audited: drafters, a strategy's or an experiment's, under settings, on an engine."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, final

from gfcr import config, experiment, models, registry
from gfcr import strategy as strategies
from gfcr.audit.drafters import ELSEWHERE, Subject
from gfcr.audit.prompts import MAX_TOKENS
from gfcr.certificate.cell import LEVEL, NONE, SAMPLES
from gfcr.certificate.settings import RUN, SETTINGS, Setting
from gfcr.engine.vllm import Vllm
from gfcr.errors import ConfigError
from gfcr.speculation.base import Drafter

MAX_LENGTH: Final = 512
"""Longest sequences asked for, where the engine allows longer ones."""


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to audit."""

    model: str = "demo"
    drafters: Sequence[Subject]
    engine: Vllm | None = None
    """None is the engine of audits, see `engine_for`."""
    fixes: bool = True
    """Whether the engine repairs vLLM."""
    settings: Sequence[Setting] = tuple(SETTINGS.values())
    max_tokens: int = MAX_TOKENS
    """Of a completion."""
    samples: int = SAMPLES
    seed: int = 0

    @property
    def folder(self) -> Path:
        """Of the model, which is made or fetched."""
        return models.resolve(self.model)

    @property
    def audited(self) -> Vllm:
        """The engine."""
        engine = self.engine or engine_for(self.folder)
        return engine if self.fixes else replace(engine, fixes=False)

    @property
    def level(self) -> float:
        """Of each cell: the audit's, shared out."""
        return LEVEL / (len(self.drafters) * len(self.settings))


def engine_for(folder: Path) -> Vllm:
    """The engine that is audited when no run names its own; long contexts are near its limit."""
    config = json.loads((folder / "config.json").read_text())
    limit = (config.get("text_config") or config).get("max_position_embeddings")
    return Vllm(max_length=min(limit or MAX_LENGTH, MAX_LENGTH), max_running=64, kv_cache_gib=0.5)


def of_drafters(drafters: Sequence[Subject]) -> Plan:
    """Drafters by themselves.

    Raises:
        ConfigError: one needs weights that noise on the target's does not make.
    """
    for subject in drafters:
        if subject.lacks_model and subject.name in ELSEWHERE:
            raise ConfigError(f"--drafter {subject.label}: {ELSEWHERE[subject.name]}.")
    return Plan(drafters=drafters)


def of_strategy(name: str) -> Plan:
    """The drafter that a strategy comes with.

    Raises:
        ConfigError: there is no such strategy.
    """
    return Plan(drafters=[_subject(strategies.load(name).drafter, label=name)])


def of_experiment(path: Path) -> Plan:
    """What a run of the experiment would use: its engine, drafter and sampling.

    Raises:
        ConfigError: the file is wrong, or its engine is not vLLM.
    """
    run = experiment.resolve(config.load(path))
    if not isinstance(run.engine, Vllm):
        name = registry.name_of("engine", type(run.engine))
        raise ConfigError(
            f"{path}: engine '{name}' cannot be audited: only `engine: {{name: vllm}}` can."
        )
    return Plan(
        model=run.config.model,
        drafters=[_subject(run.strategy.drafter, label=run.config.name)],
        engine=run.engine,
        settings=[Setting(name=RUN, sampling=run.config.sampling)],
        max_tokens=run.config.sampling.max_tokens,
    )


def _subject(drafter: Drafter | None, *, label: str) -> Subject:
    if drafter is None:
        return Subject(label=NONE, spec=None)
    return Subject(label=label, spec=registry.spec("drafter", drafter))
