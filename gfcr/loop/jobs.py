"""The rules for every job of a batch, whichever part planned it, and for a Watcher's answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from gfcr.errors import TaskError, shown
from gfcr.loop.checks import check_numbers, kind, misfit, rollout_problem
from gfcr.loop.known import Known
from gfcr.stages import Abort, Cap, Halt, Job, Plan
from gfcr.types import Prompt, Sampling
from gfcr.values.numbers import MOST, is_count

_DISTRIBUTION: Final = ("temperature", "top_p", "top_k", "min_p")
"""The sampling parameters that decide the distribution of tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules that every job of a batch must keep to, whichever part planned it."""

    sampling: Sampling
    """The run's sampling, under which the trainer computes the policy's log-probs."""
    corrected: bool
    """Whether the loss weighs tokens by the log-probs they were sampled with."""
    known: Known
    """The held-out prompts, the prompts handed out, and the rollouts that may come back."""

    def check(self, plan: Any, *, before: Sequence[Job], by: str) -> Plan:
        """Checks a plan and the jobs that a Planner added to it.

        Raises:
            PartError: it is no Plan, or one of its jobs cannot be trained on.
        """
        if not isinstance(plan, Plan):
            raise misfit(by, f"returned {kind(plan)} for a plan: return the Plan")
        for key, least in (("num_groups", 0), ("target", 1)):
            if not is_count(getattr(plan, key), least=least):
                given = shown(getattr(plan, key))
                raise misfit(by, f"planned {key}={given}: give an integer from {least} to {MOST}")
        known = {id(job) for job in before}
        for job in plan.jobs:
            if id(job) not in known:
                self._check(job, by=by)
        return plan

    def check_selected(self, jobs: Sequence[Job], *, num: int, by: str) -> Sequence[Job]:
        """Checks the jobs of the prompts that a Selector chose.

        Raises:
            PartError: their number is not `num`, or one cannot be trained on.
        """
        if len(jobs) != num:
            raise misfit(by, f"selected {len(jobs)} prompts of the {num} asked for: give as many")
        for job in jobs:
            self._check(job, by=by)
        return jobs

    def check_allocated(
        self, jobs: Sequence[Any], *, before: Sequence[Job], by: str
    ) -> Sequence[Job]:
        """Checks the jobs that an Allocator returned for those it was given.

        Raises:
            PartError: one is missing, is for another prompt, or cannot be trained on.
        """
        if len(jobs) != len(before):
            raise misfit(by, f"returned {len(jobs)} jobs for {len(before)}: return each, in order")
        for job, old in zip(jobs, before, strict=True):
            self._check(job, by=by)
            if job.prompt is not old.prompt or [*map(id, job.resume)] != [*map(id, old.resume)]:
                raise misfit(
                    by,
                    f"returned a job for prompt {job.prompt.id!r} in the place of one for "
                    f"{old.prompt.id!r}, or with other rollouts to resume: change samples, caps, "
                    "priorities and budgets alone",
                )
        return jobs

    def _check(self, job: Any, *, by: str) -> None:
        if not isinstance(job, Job) or not isinstance(cast(object, job.prompt), Prompt):
            raise misfit(by, f"planned {kind(job)}: make jobs with `view.job(prompt)`")
        where = f"planned a job for prompt {job.prompt.id!r}"
        if job.prompt.tokens in self.known.heldout:
            raise misfit(
                by,
                f"{where}, which is held out (its tokens are those of a held-out prompt): nothing "
                "held out is ever trained on. Take prompts from `view.draw`, and keep the splits "
                "of the task apart",
            )
        if not self.known.handed_out(job.prompt):
            raise misfit(
                by,
                f"{where}, which is none that `view.draw` gave in this run, or not as it was given "
                "(id, tokens, answer and meta are compared): plan prompts as they were drawn, or "
                "as an earlier rollout of the run has them",
            )
        if not is_count(job.num_samples):
            given = shown(job.num_samples)
            raise misfit(by, f"{where} with num_samples={given}: give an integer from 1 to {MOST}")
        check_numbers(job.notes, by=by, what=f"the notes of a job for {job.prompt.id!r}")
        if not isinstance(cast(object, job.resume), Sequence):
            raise misfit(by, f"{where} with resume={shown(job.resume)}: give its rollouts")
        for rollout in job.resume:
            if problem := rollout_problem(rollout, prompt=job.prompt, known=self.known):
                raise misfit(by, f"{where} that resumes what cannot be continued: {problem}")
        self._check_distribution(job, by=by, where=where)

    def _check_distribution(self, job: Job, *, by: str, where: str) -> None:
        """Refuses a distribution that the trainer does not assume, as ratios would be biased."""
        given, ours = job.sampling, self.sampling
        other = [k for k in _DISTRIBUTION if getattr(given, k) != getattr(ours, k)]
        if not other or (other == ["temperature"] and given.temperature and self.corrected):
            return
        said = ", ".join(f"{k}={getattr(given, k)!r} (run: {getattr(ours, k)!r})" for k in other)
        raise misfit(
            by,
            f"{where} with sampling {said}. The loss takes the run's; only another temperature > 0 "
            "can be corrected, by strategy.correction or loss.off_policy='behaviour'",
        )


def check_fits(job: Job, *, max_length: int) -> None:
    """Checks that the prompt and the longest rollout fit the engine's context.

    Raises:
        TaskError: they do not; a rollout cut short by the context would be scored as wrong.
    """
    what = f"prompt {job.prompt.id!r}"
    check_room(job.prompt.tokens, job.sampling, max_length=max_length, what=what)


def check_room(tokens: Sequence[int], sampling: Sampling, *, max_length: int, what: str) -> None:
    """Checks that a prompt and the longest rollout under `sampling` fit, see `check_fits`."""
    prompt, most = len(tokens), sampling.max_tokens
    if not prompt:
        raise TaskError(f"{what} has no tokens: give it at least one.")
    if prompt + most > max_length:
        raise TaskError(
            f"{what} has {prompt} tokens, which leaves {max_length - prompt} of "
            f"the engine's max_length={max_length} for a rollout of sampling.max_tokens={most}. "
            "Leave such prompts out, lower sampling.max_tokens, or raise engine.max_length."
        )


def check_watched(action: Any, *, by: str) -> None:
    """Checks that a Watcher answered with Halt, Abort, Cap or None.

    Raises:
        PartError: it answered something else, or with a cap below 0.
    """
    if not isinstance(action, Halt | Abort | Cap | None):
        raise misfit(by, f"answered {shown(action)}: return Halt, Abort, Cap or None")
    if isinstance(action, Cap) and not is_count(action.max_tokens, least=0):
        raise misfit(by, f"answered {shown(action)}: give an integer >= 0")
