"""The plan of an audit: which drafters, under which settings, on which engine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, final

from gfcr import config, experiment, models, registry
from gfcr import strategy as strategies
from gfcr.audit.asked import SAMPLES
from gfcr.audit.drafters import ALL, ELSEWHERE, Subject, named, words_of
from gfcr.audit.prompts import MAX_TOKENS, PROMPT
from gfcr.certificate.cell import LEVEL, NONE
from gfcr.certificate.settings import RUN, SETTINGS, Setting
from gfcr.engine.server_settings import Serving, is_served
from gfcr.engine.vllm_settings import Settings
from gfcr.errors import ConfigError
from gfcr.part import Part
from gfcr.speculation.base import Drafter
from gfcr.values import names

MAX_LENGTH: Final = 512
"""Longest sequences asked for, if the engine allows longer ones."""


@final
@dataclass(frozen=True, kw_only=True)
class Plan:
    """The drafters, settings and engine of an audit."""

    model: str = "demo"
    drafters: Sequence[Subject]
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Settings of the engine that are not the default of audits, see `engine_for`."""
    settings: Sequence[Setting] = tuple(SETTINGS.values())
    max_tokens: int = MAX_TOKENS
    """Most tokens of a completion."""
    samples: int = SAMPLES
    minutes: float | None = None
    """Of a cell: after these no round begins, but for one of each kind; None: see `worker`."""
    keep: Path | None = None
    """Folder of certificates, in which undecided cells wait for the next command."""
    seed: int = 0

    def __post_init__(self) -> None:
        """Checks the engine before a model is made or fetched.

        Raises:
            ConfigError: a change is not allowed, the engine has no model or cannot run a drafter.
        """
        engine = _built(self.engine)
        for subject in self.drafters:
            engine.check(subject.build())

    @property
    def folder(self) -> Path:
        """Folder of the model, which is made or fetched first."""
        return models.resolve(self.model)

    @property
    def audited(self) -> Settings:
        """The engine to audit, with all its settings."""
        return engine_for(self.folder, changes=self.engine)

    @property
    def shortened(self) -> str | None:
        """Says that completions have fewer than `max_tokens`; None where they have as many."""
        room = self.audited.context(str(self.folder)) - PROMPT
        if self.max_tokens <= room:
            return None
        return (
            f"completions have {room} tokens at most, not {self.max_tokens}: engine.max_length="
            f"{room + PROMPT} has room for no more. Raise it, as far as the model has positions."
        )

    @property
    def level(self) -> float:
        """Level of each cell: an equal part of the audit's."""
        return LEVEL / (len(self.drafters) * len(self.settings))


def engine_for(folder: Path, *, changes: Mapping[str, Any] | None = None) -> Settings:
    """Returns the default engine; its limit is low, so that long contexts come near it."""
    config = json.loads((folder / "config.json").read_bytes())
    limit = (config.get("text_config") or config).get("max_position_embeddings")
    return _built({"max_length": min(limit or MAX_LENGTH, MAX_LENGTH), **(changes or {})})


def _built(changes: Mapping[str, Any]) -> Settings:
    own: dict[str, Any] = {"name": "vllm", "max_running": 64, "kv_cache_gib": 0.5, **changes}
    engine: type[Part] = registry.find("engine", str(own["name"]), where="engine.name")
    if not issubclass(engine, Settings):
        known = registry.names("engine")
        allowed = [n for n in known if issubclass(registry.find("engine", n), Settings)]
        raise ConfigError(
            f"engine.name={own['name']} cannot be audited: only {', '.join(allowed)} can, which "
            "sample from a model."
        )
    return registry.build("engine", own, where="engine")


def of_drafters(drafters: str, *, changes: Mapping[str, Any] | None = None) -> Plan:
    """Plans an audit of drafters by themselves.

    Args:
        drafters: see `audit.drafters.named`; `all` is every one that the engine can run.
        changes: changes of the engine's settings.

    Raises:
        ConfigError: a drafter is unknown, or needs weights that noise on the target's cannot give.
    """
    found, changes = named(drafters), changes or {}
    if ALL in words_of(drafters) and isinstance(_built(changes), Serving):
        found = [s for s in found if (part := s.build()) is None or is_served(type(part))]
    for subject in found:
        if subject.lacks_model and subject.name in ELSEWHERE:
            raise ConfigError(f"--drafter {subject.label}: {ELSEWHERE[subject.name]}.")
    return Plan(drafters=found, engine=changes)


def of_strategy(name: str, *, changes: Mapping[str, Any] | None = None) -> Plan:
    """Plans an audit of the drafter that a strategy comes with.

    Raises:
        ConfigError: the strategy does not exist.
    """
    drafter = strategies.load(name).drafter
    subject = _subject(drafter, label=names.of_object(name))  # certificates are files of that name
    return Plan(drafters=[subject], engine=changes or {})


def of_experiment(path: Path, *, overrides: Sequence[str] = ()) -> Plan:
    """Plans an audit of what a run of the experiment would use: engine, drafter and sampling.

    Raises:
        ConfigError: the file or an override is wrong, or the engine is not vLLM.
    """
    run = experiment.resolve(config.read_experiment(path, overrides=overrides))
    return Plan(
        model=run.config.model,
        drafters=[_subject(run.strategy.drafter, label=run.config.name)],
        engine=registry.spec("engine", run.engine),
        settings=[Setting(name=RUN, sampling=run.config.sampling)],
        max_tokens=run.config.sampling.max_tokens,
    )


def _subject(drafter: Drafter | None, *, label: str) -> Subject:
    if drafter is None:
        return Subject(label=NONE, spec=None)
    return Subject(label=label, spec=registry.spec("drafter", drafter))
