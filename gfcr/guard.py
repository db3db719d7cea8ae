"""What parts and verifiers hand over, checked where it is handed over: whoever is wrong is named.

A part that raises, or gives back what nobody can train on, stops the run with its address in the
strategy. A verifier that does makes one rollout unscorable.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from types import UnionType
from typing import Any, Final, TypeGuard

import numpy as np

from gfcr.custody import Custody
from gfcr.errors import PartError, TaskError, shown
from gfcr.stages import Abort, Cap, Halt, Job, Plan
from gfcr.types import Floats, Group, Prompt, Rollout, Sampling, Signal

_LARGEST: Final = float(np.finfo(np.float32).max)
_MOST: Final = 1_000_000
_LAW: Final = ("temperature", "top_p", "top_k", "min_p")
"""What of a job's sampling decides which distribution its tokens have."""


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number of Python or numpy, finite or not."""
    return isinstance(value, Real | np.bool_)


def is_count(value: object, *, least: int = 1) -> bool:
    """Whether it is an integer of at least that much, and few enough to be gone through."""
    if isinstance(value, bool):
        return False
    return isinstance(value, Integral) and least <= int(value) <= _MOST


def real(value: object) -> float | None:
    """The value as a number that is finite in single precision; None for anything else.

    Python's and numpy's integers, floats and booleans are numbers, and so are fractions; complex
    numbers, texts and arrays are not.
    """
    if not is_number(value):
        return None
    try:
        number = float(value)
    except (OverflowError, ValueError):
        return None
    return number if abs(number) <= _LARGEST else None


def misfit(address: str, problem: str) -> PartError:
    """The error for what a part gave back."""
    return PartError(f"strategy.{address}: {problem}.")


# ---------------------------------------------------------------- jobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What every job of a batch must keep to, whoever brings it."""

    sampling: Sampling
    """Of the run: what the trainer takes log-probs of the policy under."""
    corrected: bool
    """Whether the loss weighs tokens by the log-probs that they were sampled with."""
    custody: Custody
    """Knows the held-out prompts, those handed out, and the rollouts that were made."""

    def check(self, plan: Any, *, before: Sequence[Job], by: str) -> Plan:
        """Vouches for a plan and the jobs that are new in it.

        Raises:
            PartError: it is no plan, or one of its jobs cannot be trained on.
        """
        if not isinstance(plan, Plan):
            raise misfit(by, f"returned {_kind(plan)} for a plan: return the Plan")
        for key, least in (("num_groups", 0), ("target", 1)):
            if not is_count(getattr(plan, key), least=least):
                given = shown(getattr(plan, key))
                raise misfit(by, f"planned {key}={given}: give an integer from {least} to {_MOST}")
        known = {id(job) for job in before}
        for job in plan.jobs:
            if id(job) not in known:
                self._check(job, by=by)
        return plan

    def check_selected(self, jobs: Sequence[Job], *, num: int, by: str) -> Sequence[Job]:
        """Vouches for the jobs of prompts that were selected.

        Raises:
            PartError: they are not as many as asked for, or one cannot be trained on.
        """
        if len(jobs) != num:
            raise misfit(by, f"selected {len(jobs)} prompts of the {num} asked for: give as many")
        for job in jobs:
            self._check(job, by=by)
        return jobs

    def check_allocated(
        self, jobs: Sequence[Any], *, before: Sequence[Job], by: str
    ) -> Sequence[Job]:
        """Vouches for what an Allocator made of the jobs.

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
        if not isinstance(job, Job) or not _is(job.prompt, Prompt):
            raise misfit(by, f"planned {_kind(job)}: make jobs with `view.job(prompt)`")
        where = f"planned a job for prompt {job.prompt.id!r}"
        if job.prompt.tokens in self.custody.heldout:
            raise misfit(
                by,
                f"{where}, which is held out (its tokens are those of a held-out prompt): nothing "
                "held out is ever trained on. Take prompts from `view.draw`, and keep the splits "
                "of the task apart",
            )
        if not self.custody.handed_out(job.prompt):
            raise misfit(
                by,
                f"{where}, which is none that `view.draw` gave in this run, or not as it was given "
                "(id, tokens, answer and meta are compared): plan prompts as they were drawn, or "
                "as an earlier rollout of the run has them",
            )
        if not is_count(job.num_samples):
            given = shown(job.num_samples)
            raise misfit(by, f"{where} with num_samples={given}: give an integer from 1 to {_MOST}")
        if not _is(job.resume, tuple) or not _is(job.notes, Mapping):
            raise misfit(by, f"{where} with resume={shown(job.resume)}, notes={shown(job.notes)}")
        check_numbers(job.notes, by=by, what=f"the notes of a job for {job.prompt.id!r}")
        for rollout in job.resume:
            problem = _rollout_problem(rollout, prompt=job.prompt, custody=self.custody)
            if problem is not None:
                raise misfit(by, f"{where} that resumes what cannot be continued: {problem}")
        self._check_law(job, by=by, where=where)

    def _check_law(self, job: Job, *, by: str, where: str) -> None:
        """Rollouts of another distribution than the trainer assumes would bias its ratios."""
        given, ours = job.sampling, self.sampling
        other = {k for k in _LAW if getattr(given, k) != getattr(ours, k)}
        if not other or (other == {"temperature"} and given.temperature and self.corrected):
            return
        said = ", ".join(f"{k}={getattr(given, k)!r} (run: {getattr(ours, k)!r})" for k in other)
        raise misfit(
            by,
            f"{where} with sampling {said}. The loss takes the run's; only another temperature > 0 "
            "can be corrected, by loss.off_policy 'recompute' or 'behaviour'",
        )


def check_fits(job: Job, *, max_length: int) -> None:
    """Vouches that the prompt and the longest rollout fit the engine's context.

    Raises:
        TaskError: they do not; a rollout cut short by the context would be scored as wrong.
    """
    prompt, most = len(job.prompt.tokens), job.sampling.max_tokens
    if not prompt:
        raise TaskError(f"prompt {job.prompt.id!r} has no tokens: give it at least one.")
    if prompt + most > max_length:
        raise TaskError(
            f"prompt {job.prompt.id!r} has {prompt} tokens, which leaves {max_length - prompt} of "
            f"the engine's max_length={max_length} for a rollout of sampling.max_tokens={most}. "
            "Leave such prompts out, lower sampling.max_tokens, or raise engine.max_length."
        )


def check_watched(action: Any, *, by: str) -> None:
    """Vouches for what a Watcher answered.

    Raises:
        PartError: it is no answer.
    """
    if not isinstance(action, Halt | Abort | Cap | None):
        raise misfit(by, f"answered {shown(action)}: return Halt, Abort, Cap or None")
    if isinstance(action, Cap) and not is_count(action.max_tokens, least=0):
        raise misfit(by, f"answered {shown(action)}: give an integer >= 0")


# ---------------------------------------------------------------- groups


def check_group(group: Any, *, before: Group, by: str) -> Group:
    """Vouches that a part annotated a group with what can be trained on.

    Raises:
        PartError: names the part, the group, the rollout and the value.
    """
    where = f"group {before.id} of prompt {before.prompt.id!r}"
    if not isinstance(group, Group):
        raise misfit(by, f"returned {_kind(group)} for {where}: return the Group")
    if group.id != before.id or list(map(id, group.rollouts)) != list(map(id, before.rollouts)):
        raise misfit(
            by,
            f"{where} came back with other rollouts than its {len(before.rollouts)}: annotate them "
            "(`reject_rollouts`, `with_rewards`, `with_advantages`), never add or delete any",
        )
    if not _is(group.rejected, str | None):
        raise misfit(by, f"rejected {where} for {shown(group.rejected)}: give a reason in words")
    if len(group.signals) != len(group.rollouts):
        raise misfit(
            by, f"{where} came back with {len(group.signals)} signals for {len(group.rollouts)}"
        )
    for rollout, signal in zip(group.rollouts, group.signals, strict=True):
        problem = _problem(signal, rollout=rollout, kept=group.rejected is None)
        if problem is not None:
            rewards = ", ".join(f"{r:g}" for r in before.rewards_N[:16])
            raise misfit(by, f"{where}, rollout {rollout.id}: {problem} (rewards {rewards})")
    check_numbers(group.values, by=by, what=f"the values of {where}")
    return group


def check_groups(groups: Any, *, before: Sequence[Group], by: str) -> list[Group]:
    """Vouches for what a BatchMap returned.

    Raises:
        PartError: see `check_group`.
    """
    found: list[Any] = list(groups)
    if len(found) != len(before):
        raise misfit(by, f"returned {len(found)} groups for {len(before)}: return each, in order")
    return [check_group(g, before=b, by=by) for g, b in zip(found, before, strict=True)]


def check_recalled(
    rollouts: Iterable[Any], *, group: Group, custody: Custody, by: str
) -> list[Rollout]:
    """Vouches that what was recalled may join the group.

    Raises:
        PartError: it is of another prompt, incomplete, or not what this run made.
    """
    recalled = list(rollouts)
    for rollout in recalled:
        problem = _rollout_problem(rollout, prompt=group.prompt, custody=custody)
        if problem is None and not rollout.complete:
            problem = f"rollout {rollout.id} is incomplete (finish={rollout.finish.value})"
        if problem is not None:
            raise misfit(by, f"recalled for group {group.id}: {problem}")
    return recalled


def check_numbers(values: Mapping[Any, Any], *, by: str, what: str) -> None:
    """Vouches that measurements are numbers by name; they need not be finite.

    Raises:
        PartError: one is not.
    """
    for key, value in values.items():
        if not isinstance(key, str) or not is_number(value):
            raise misfit(by, f"{what} hold {key!r}: {shown(value)}: give names numbers")


def _problem(signal: Any, *, rollout: Rollout, kept: bool) -> str | None:
    """What is wrong with a signal; of a rollout that is not trained on nothing need be right."""
    if not isinstance(signal, Signal):
        return f"its signal is {_kind(signal)}, not a Signal"
    if not _is(signal.rejected, str | None):
        return f"it is rejected for {shown(signal.rejected)}: give a reason in words"
    if not kept or signal.rejected is not None:
        return None
    if signal.reward is None:
        return "it is unscorable, and kept without a reward: leave it rejected or give it one"
    for name in ("reward", "weight"):
        value = getattr(signal, name)
        if real(value) is None:
            return f"its {name} is {shown(value)}, not a finite number"
    return None if signal.advantage is None else _advantage_problem(signal.advantage, rollout)


def _advantage_problem(advantage: Floats | float, rollout: Rollout) -> str | None:
    if not isinstance(advantage, np.ndarray):
        finite = real(advantage) is not None
        return None if finite else f"its advantage is {shown(advantage)}, not finite"
    if advantage.shape != (len(rollout),) or advantage.dtype.kind not in "fiub":
        return (
            f"its advantages have shape {advantage.shape} and type {advantage.dtype}: give one "
            f"real number for each of its {len(rollout)} tokens"
        )
    wrong = np.flatnonzero(~(np.abs(advantage.astype(np.float64)) <= _LARGEST))
    if len(wrong):
        return f"the advantage of its token {wrong[0]} is {advantage[wrong[0]]}, not finite"
    return None


def _rollout_problem(rollout: Any, *, prompt: Prompt, custody: Custody) -> str | None:
    """Why an earlier rollout cannot be used again for a prompt, if so."""
    if not isinstance(rollout, Rollout):
        return f"{_kind(rollout)} is no Rollout"
    if rollout.prompt.tokens != prompt.tokens:
        return f"rollout {rollout.id} answers prompt {rollout.prompt.id!r}, not {prompt.id!r}"
    if not custody.made(rollout):
        return (
            f"rollout {rollout.id} is none that this run made, not as it was made, or one of an "
            "earlier update that `holds` did not name: give rollouts back as they were stored"
        )
    return None


def _is(value: object, kind: type | UnionType) -> bool:
    return isinstance(value, kind)


def _kind(value: object) -> str:
    return f"{type(value).__name__} {shown(value)}"
