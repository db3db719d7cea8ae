"""Rollouts for held-out evaluation, kept apart from the run's training."""

from collections.abc import Sequence
from dataclasses import replace

from gfcr.ledger import EVALUATION
from gfcr.loop.collector import check_scorable
from gfcr.loop.floor import Floor
from gfcr.loop.runner import Runner
from gfcr.loop.stream import PromptStream
from gfcr.loop.view import RunView, shown
from gfcr.stages import Generate
from gfcr.types import Group, Prompt, Sampling


def evaluate(
    prompts: Sequence[Prompt],
    *,
    floor: Floor,
    generate: Generate,
    num_samples: int,
    sampling: Sampling,
    label: str,
) -> list[Group]:
    """Samples answers to held-out prompts under the current policy; tokens count as evaluation.

    The draws depend on (seed, prompt, sample) alone: the same in every arm and at every update.
    `generate` sees nothing of how the arm trains.

    Args:
        prompts: the prompts, in the order they are asked.
        floor: that of the evaluation alone; nothing else is in flight in its engine.
        generate: makes the rollouts.
        num_samples: rollouts of each prompt.
        sampling: the sampling of all rollouts.
        label: the start of the groups' ids.

    Raises:
        GfcrError: no answer could be scored.
    """
    view = RunView(
        floor,
        target=len(prompts),
        group_size=num_samples,
        sampling=sampling,
        stream=PromptStream(prompts, seed=None),
        as_version=0,
    )
    runner, seen = Runner(floor, generate=generate), shown(view)
    for index, prompt in enumerate(prompts):
        # No drafts: what is measured must not depend on how rollouts are made.
        job = replace(view.job(prompt), draft_budget=0, step=-1)
        runner.start(job, group_id=f"{label}:{index}:{prompt.id}", view=seen)
    groups = runner.finish()
    beside = [*runner.take_cut(), *runner.take_asides()]
    for rollout in [*(r for g in groups for r in g.rollouts), *beside]:
        floor.ledger.settle(rollout.spans, bin=EVALUATION)
    check_scorable((r for g in groups for r in g.rollouts), where=f"evaluation {label}")
    return groups
