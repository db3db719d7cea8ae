"""What every round of generation shares, training and evaluation alike."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import final

from gfcr.engine.base import Engine
from gfcr.ledger import EVALUATION, Ledger
from gfcr.loop.collector import check_scorable
from gfcr.loop.faults import Told
from gfcr.loop.runner import Runner
from gfcr.loop.scoring import Desk
from gfcr.loop.stream import Prompts, PromptStream
from gfcr.loop.view import RunView, shown
from gfcr.stages import Evaluator, Generate, Watcher
from gfcr.tasks.base import Codec
from gfcr.types import Group, Prompt, Sampling


@final
@dataclass(kw_only=True)
class Loop:
    """An engine, who scores, and the ledger that both fill."""

    engine: Engine
    codec: Codec
    desk: Desk
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    told: Told = field(default_factory=Told)
    """Failures that were shown."""

    def view(
        self, step: int, *, target: int, group_size: int, sampling: Sampling, stream: Prompts
    ) -> RunView:
        """What parts see of the batch for an update."""
        return RunView(
            step=step,
            target=target,
            group_size=group_size,
            sampling=sampling,
            seed=self.seed,
            stream=stream,
            engine=self.engine,
            codec=self.codec,
        )

    def runner(
        self,
        view: RunView,
        *,
        generate: Generate,
        watchers: Mapping[str, Watcher] = MappingProxyType({}),
        evaluators: Mapping[str, Evaluator] = MappingProxyType({}),
        heldout: Collection[tuple[int, ...]] = (),
        desk: Desk | None = None,
        address: str = "generate",
    ) -> Runner:
        """Makes the runner of a batch or an evaluation; `desk` scores, or else the loop's."""
        return Runner(
            engine=self.engine,
            codec=self.codec,
            desk=desk or self.desk,
            ledger=self.ledger,
            generate=generate,
            watchers=watchers,
            evaluators=evaluators,
            heldout=heldout,
            view=shown(view),
            seed=self.seed,
            address=address,
            told=self.told,
        )

    def evaluate(
        self,
        prompts: Sequence[Prompt],
        *,
        generate: Generate,
        num_samples: int,
        sampling: Sampling,
        label: str,
        desk: Desk | None = None,
    ) -> list[Group]:
        """Rolls out held-out prompts under the current policy; tokens count as evaluation.

        The draws depend on (seed, prompt, sample) alone: the same in every arm and at every update.
        What `generate` sees holds nothing of how the arm trains. `desk` scores, or else the run's.

        Raises:
            GfcrError: no answer could be scored.
        """
        stream = PromptStream(prompts, seed=None)
        sizes = {"target": len(prompts), "group_size": num_samples}
        view = self.view(0, sampling=sampling, stream=stream, **sizes)
        view.as_version = 0
        address = "evaluation.generate"
        runner = self.runner(view, generate=generate, desk=desk, address=address)
        for index, prompt in enumerate(prompts):
            # No drafts: what is measured must not depend on how rollouts are made.
            job = replace(view.job(prompt), draft_budget=0, step=-1)
            runner.start(job, group_id=f"{label}:{index}:{prompt.id}")
        groups: list[Group] = []
        while runner.num_groups:
            groups += runner.advance()
        for rollout in [*(r for g in groups for r in g.rollouts), *runner.take_asides()]:
            self.ledger.settle(rollout.spans, bin=EVALUATION)
        check_scorable((r for g in groups for r in g.rollouts), where=f"evaluation {label}")
        order = {p.id: i for i, p in enumerate(prompts)}
        return sorted(groups, key=lambda g: order[g.prompt.id])
