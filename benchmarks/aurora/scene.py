"""A served model that knows two domains, and the drafts that measurements begin with."""

import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any, Final, final

from annotated_types import Interval

from benchmarks.aurora.drafts import Switch, demonstrated, folder_of, train_on, untrained
from benchmarks.aurora.stream import Block, Stream
from benchmarks.rounds import weights
from gfcr import models, registry
from gfcr.engine.base import EngineConfig
from gfcr.errors import ConfigError
from gfcr.process import cores
from gfcr.seeds import rng
from gfcr.speculation.lessons import Example
from gfcr.tasks.chain_sum import ChainSum
from gfcr.tasks.codec import HfCodec
from gfcr.tasks.demos.chain_sum import ChainSumDemonstrations
from gfcr.types import Prompt, Sampling
from gfcr.values.ranges import Checked, Count, DraftLength

DOMAINS: Final = (ChainSum(), ChainSum(max_operand=99))
"""Before the shift and after it."""
_LR: Final = 1e-3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Checked):
    """What is measured."""

    model: str = "demo"
    """The model that is served, which is trained on both domains first."""
    draft: str = "demo-draft"
    before: Count = 192
    """Requests before the shift, at least: a draft that learns is to have learnt something."""
    after: Count = 3072
    """Requests after it."""
    cadences: Sequence[Annotated[int, Interval(ge=1, le=10**6)]] = (96, 24, 384)
    """Requests from one round of learning to the next; the first meets a bad draft, too."""
    seeds: Annotated[int, Interval(ge=2, le=1000)] = 3
    running: Count = 32
    """Requests at a time."""
    block: Count = 32
    """Requests whose acceptance is told together."""
    max_tokens: Count = 120
    draft_length: DraftLength = 3
    corpus: Count = 1536
    """Requests that drafts are trained on ahead."""
    policy_steps: Count = 300
    """Optimizer steps that teach the model both domains."""
    trained_steps: Count = 800
    """Optimizer steps of drafts that are trained ahead."""
    steps_per_request: Annotated[float, Interval(gt=0, le=1e3)] = 1 / 3
    """Optimizer steps of drafts that learn, whatever the cadence."""
    engine: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        longest = max(self.cadences, default=0)
        if not 0 < longest <= self.after:
            raise ConfigError(
                f"Plan.cadences={[*self.cadences]} is not allowed: give cadences from 1 to "
                f"{self.after}, the requests after the shift."
            )


@final
@dataclass(frozen=True, kw_only=True)
class Scene:
    """An engine that serves, and folders of drafts."""

    plan: Plan
    stream: Stream
    switch: Switch
    prompts: Sequence[Sequence[Prompt]]
    """The prompts of each domain."""
    home: Path
    """Folder of the draft that was trained on the first domain."""
    offline: Path
    """Folder of the one that was trained on the second, from there."""
    cold: Path
    """Folder of a draft that knows nothing."""

    def blocks(self, domain: int, *, seed: int, requests: int) -> list[Block]:
        """Goes on with so many requests of a domain."""
        return [*islice(self.endless(domain, seed=seed), -(-requests // self.plan.block))]

    def endless(self, domain: int, *, seed: int) -> Iterator[Block]:
        """Goes on with requests of a domain, in an order of the seed's."""
        half = self.prompts[domain][: len(self.prompts[domain]) // 2]
        order: list[int] = rng(seed, "aurora", domain).permutation(len(half)).tolist()
        return self.stream.blocks(cycle([half[i] for i in order]), seed=seed)


@contextmanager
def started(plan: Plan) -> Generator[Scene]:
    """Starts the engine, on half of the cores where it has processes of its own, and trains.

    Raises:
        ConfigError: no such model or setting, or the draft does not fit.
        EngineError: the engine does not start.
    """
    model, draft = models.resolve(plan.model), models.resolve(plan.draft)
    engine = {"name": "vllm_server", **plan.engine}
    config: EngineConfig = registry.build("engine", engine, where="engine")
    codec, switch = HfCodec(model), Switch(draft, draft_length=plan.draft_length)
    with ExitStack() as held:
        scratch = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="gfcr-aurora-")))
        held.enter_context(cores.apart(servers=config.servers))
        served = config.start(model=str(model), seed=0, drafter=switch)
        held.enter_context(closing(served))
        served.update_weights(
            weights(_policy(plan, model=model, codec=codec, scratch=scratch)).items(), version=1
        )
        stream = Stream(
            engine=served,
            sampling=Sampling(max_tokens=plan.max_tokens),
            running=plan.running,
            block=plan.block,
        )
        prompts = [task.problems(codec).train for task in DOMAINS]
        made = [draft]
        for place, own in enumerate(prompts):
            kept = _said(plan, own[len(own) // 2 :], stream=stream, switch=switch, draft=made[-1])
            file = scratch / f"draft-{place}.safetensors"
            train_on(kept, model=made[-1], steps=plan.trained_steps, lr=_LR, file=file)
            made.append(folder_of(file, like=draft, folder=scratch / f"draft-{place}"))
        yield Scene(
            plan=plan,
            stream=stream,
            switch=switch,
            prompts=prompts,
            home=made[1],
            offline=made[2],
            cold=untrained(draft, folder=scratch / "cold", seed=0),
        )


def _policy(plan: Plan, *, model: Path, codec: HfCodec, scratch: Path) -> Path:
    """The model, taught both domains by demonstrations in turns."""
    number, file = 40 * plan.policy_steps // len(DOMAINS), scratch / "policy.safetensors"
    sources = (ChainSumDemonstrations(task=task) for task in DOMAINS)
    own = [demonstrated(source, codec=codec, number=number) for source in sources]
    mixed = [example for pair in zip(*own, strict=True) for example in pair]
    train_on(mixed, model=model, steps=plan.policy_steps, lr=_LR, file=file)
    return file


def _said(
    plan: Plan, prompts: Iterable[Prompt], *, stream: Stream, switch: Switch, draft: Path
) -> list[Example]:
    """Returns what the served model says to prompts, with its likeliest tokens."""
    switch.begin(draft)
    kept: list[Example] = []
    switch.seen = kept
    for _ in stream.blocks(islice(cycle(prompts), plan.corpus), seed=10_000):
        pass
    stream.drain()
    switch.seen = None
    return kept
