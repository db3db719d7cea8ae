"""From what a user names - drafters, a strategy, an experiment - to the plan of an audit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from gfcr import config, experiment, models, registry
from gfcr import strategy as strategies
from gfcr.audit.drafters import ELSEWHERE, Subject
from gfcr.audit.prompts import MAX_TOKENS
from gfcr.audit.run import Plan, engine_for
from gfcr.certificate.cell import NONE
from gfcr.certificate.settings import SETTINGS, Setting, of_run
from gfcr.engine.vllm import Vllm
from gfcr.errors import ConfigError
from gfcr.speculation.base import Drafter

DEMO = "demo"


@final
@dataclass(frozen=True, kw_only=True)
class Request:
    """What is to be audited."""

    model: str
    drafters: Sequence[Subject]
    engine: Vllm | None = None
    """None is the engine of audits."""
    settings: Sequence[Setting] = tuple(SETTINGS.values())
    """Audited when no others are asked for."""
    max_tokens: int = MAX_TOKENS
    """Of a completion, when nothing else is asked for."""


def of_drafters(drafters: Sequence[Subject], *, model: str | None) -> Request:
    """Drafters by themselves.

    Raises:
        ConfigError: one needs weights that noise on the target's does not make.
    """
    for subject in drafters:
        if subject.lacks_model and subject.name in ELSEWHERE:
            raise ConfigError(f"--drafter {subject.label}: {ELSEWHERE[subject.name]}.")
    return Request(model=model or DEMO, drafters=drafters)


def of_strategy(name: str, *, model: str | None) -> Request:
    """The drafter that a strategy comes with.

    Raises:
        ConfigError: there is no such strategy.
    """
    drafter = strategies.load(name).drafter
    return Request(model=model or DEMO, drafters=[_subject(drafter, label=name)])


def of_experiment(path: Path, *, model: str | None) -> Request:
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
    return Request(
        model=model or run.config.model,
        drafters=[_subject(run.strategy.drafter, label=run.config.name)],
        engine=run.engine,
        settings=[of_run(run.config.sampling)],
        max_tokens=run.config.sampling.max_tokens,
    )


def plan(
    asked: Request,
    *,
    settings: Sequence[Setting] | None,
    max_tokens: int | None,
    samples: int,
    fixes: bool,
    seed: int,
) -> Plan:
    """The plan of an audit; the model is made or fetched."""
    folder = models.resolve(asked.model)
    engine = asked.engine or engine_for(folder)
    return Plan(
        model=asked.model,
        folder=folder,
        drafters=asked.drafters,
        settings=settings or asked.settings,
        engine=engine if fixes else replace(engine, fixes=False),
        max_tokens=max_tokens or asked.max_tokens,
        samples=samples,
        seed=seed,
    )


def _subject(drafter: Drafter | None, *, label: str) -> Subject:
    if drafter is None:
        return Subject(label=NONE, spec=None)
    return Subject(label=label, spec=registry.spec("drafter", drafter))
