"""The trainer's source of batches: budgets, evaluation, records, progress and state of a run."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal, final

from annotated_types import Interval

from gfcr import registry
from gfcr.code import sources
from gfcr.config import HELDOUT
from gfcr.doctor import Finding, Watcher
from gfcr.errors import ConfigError, ForeignCheckpointError, shown
from gfcr.experiment.heldout import Heldout, Question
from gfcr.experiment.resolved import Resolved
from gfcr.loop.alike import left_out, warnings
from gfcr.loop.scoring import asked_again
from gfcr.pipeline import Pipeline
from gfcr.process import lease
from gfcr.process.phase import NOW
from gfcr.schedule.base import Work
from gfcr.tracking.curve import Point
from gfcr.tracking.folder import Mark, RunFolder
from gfcr.types import Cost, RolloutBatch
from gfcr.values.ranges import Checked

SPECULATION = ("drafted", "accepted", "verified")
"""Names of the `speculation/` metrics that are summed over a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What a live display shows after each update."""

    update: int
    metrics: Mapping[str, float]
    heldout: float | None
    """The latest held-out score; None before the first evaluation."""
    findings: Sequence[Finding] = ()
    """Findings of the doctor that begin with this update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Checked):
    """Where a run stops for now: the first held-out evaluation at or beyond one of these values."""

    of: Literal["updates", "generated_tokens"]
    """What is counted; tokens are those generated for training, without evaluations."""
    at: Annotated[int, Interval(ge=0, le=10**15)]

    @classmethod
    def parse(cls, text: str) -> "Pause":
        """Reads `updates=10` or `generated_tokens=50000`.

        Raises:
            ConfigError: the text has neither form.
        """
        key, _, value = text.partition("=")
        if key not in ("updates", "generated_tokens") or not value.isdigit():
            raise ConfigError(f"until '{text}': give updates=NUMBER or generated_tokens=NUMBER.")
        try:
            return cls(of=key, at=int(value))
        except ValueError as error:
            raise ConfigError(f"until {shown(text)}: {error}") from error

    def __str__(self) -> str:
        """Writes the text that `parse` reads."""
        return f"{self.of}={self.at}"

    def reached(self, point: Sequence[float]) -> bool:
        """Tells if a point of a run's curve (update, tokens, seconds, score) has reached it."""
        update, tokens, *_ = point
        return (update if self.of == "updates" else tokens) >= self.at


@dataclass(kw_only=True)
class _Memory:
    """What a run remembers beside the pipeline's parts; it is saved in checkpoints too."""

    before: Heldout | None = None
    latest: Heldout | None = None
    curve: list[Point] = field(default_factory=list[Point])
    unscorable: list[int] = field(default_factory=list[int])
    """The number of held-out answers without a score, at each point of the curve."""
    elapsed_s: float = 0.0
    verifier_calls: int = 0
    totals: dict[str, float] = field(default_factory=dict[str, float])
    """Sums over updates: seconds by activity, and rollout tokens."""
    warned: list[str] = field(default_factory=list[str])
    """What looked wrong in the first batch, as `gfcr.loop.alike` says it."""


@final
class RunSource(Work):
    """See `train.base.BatchSource`: the pipeline with everything a run records around it."""

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        of: Resolved,
        records: RunFolder,
        question: Question,
        pause: Pause | None,
        watch: Callable[[Progress], None],
    ) -> None:
        self.pipeline, self._records, self._tracker = pipeline, records, of.tracker
        self.sync, self.masked = pipeline.sync, pipeline.masked
        self.question = question
        self._config, self._generate = of.config, of.generate
        self._pause, self._watch = pause, watch
        task = pipeline.desk.task
        places = sources.roots(registry.nested(task).values(), spec=registry.spec("task", task))
        self._by_others = bool(sources.units(places))
        """Whether code that is not gfcr's scores: it may be no function of prompt and text."""
        self.memory = _Memory()
        self.begun = False
        """Whether the records and the store were opened in this session."""
        self._began = time.perf_counter()
        self._is_paused = False
        self._made: dict[int, RolloutBatch] = {}
        """Batches that have not been learned from yet, by update."""

    def next_batch(self) -> RolloutBatch | None:
        if not self.goes_on() or self._is_paused:
            return None
        lease.enter("decode")
        NOW.enter("generating", of=self._config.prompts * self.pipeline.strategy.group_size)
        batch = self.pipeline.next_batch()
        self.made(batch)
        lease.enter("train")
        return batch

    def goes_on(self) -> bool:
        # Without a checkpoint all is made again, and what a killed session had recorded goes.
        if not self.begun:
            self._begin(Mark())
        memory, every = self.memory, self._config.evaluation.every
        version = self.pipeline.engine.version
        if not memory.curve:
            memory.before = self.evaluate(update=version)
        elif every and version % every == 0 and memory.curve[-1][0] != version:
            self.evaluate(update=version)
        latest = memory.curve[-1]
        reached = self._pause is not None and self._pause.reached(latest)
        self._is_paused = self._is_paused or (reached and latest[0] == version)
        return self.spent() is None

    def made(self, batch: RolloutBatch) -> None:
        if not batch.step:
            pipeline = self.pipeline
            told = warnings(batch, task=pipeline.desk.task, strategy=pipeline.strategy)
            self.memory.warned = [*filter(None, [*told, left_out(batch, codec=pipeline.codec)])]
            for said in self.memory.warned:
                print(f"gfcr: {said}", file=sys.stderr)
        self.memory.verifier_calls += batch.cost.verifier_calls
        self._made[batch.step] = batch

    def hold(self, batch: RolloutBatch) -> None:
        self.pipeline.hold(batch)
        self._made[batch.step] = batch

    def updated(self, *, step: int, metrics: Mapping[str, float]) -> None:
        # It is found by its update, as a schedule may have made later batches already.
        batch = self._made.pop(step - 1)
        self.pipeline.updated(metrics, update=step - 1)
        cost = batch.cost
        merged = {**batch.metrics, **_step_metrics(metrics, cost=cost)}
        summed = {f"speculation/{name}" for name in SPECULATION}
        sums = {k: v for k, v in merged.items() if k.startswith("time/") or k in summed}
        sums["rollout_tokens"] = float(cost.generated_tokens)
        sums["forward_passes"] = float(cost.forward_passes)
        for key, value in sums.items():
            self.memory.totals[key] = self.memory.totals.get(key, 0.0) + value
        self._records.append(step, metrics=merged)
        self._tracker.log(step, merged)
        latest = self.memory.curve[-1][3] if self.memory.curve else None
        found = self._doctor.heed(step, metrics=merged)
        self._watch(Progress(update=step, metrics=merged, heldout=latest, findings=found))

    def state_dict(self) -> dict[str, Any]:
        memory = replace(self.memory, elapsed_s=self.elapsed_s)
        held = {"of": self._records.whose(), "memory": memory, "mark": self._records.mark()}
        return {"pipeline": self.pipeline.state_dict(), "training": self.question.training, **held}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `BatchSource.load_state_dict`.

        Raises:
            CheckpointError: a record from before the checkpoint is damaged.
            ForeignCheckpointError: another run, or another attempt at this one, wrote it.
        """
        held, own = state.get("of", "an earlier version of gfcr"), self._records.whose()
        if held != own:
            raise ForeignCheckpointError(
                f"The checkpoint in {self._records.path} was written by {held}, and this is {own} "
                "(files run.json and attempt): put back the files that this run wrote, or start "
                "over with --fresh, which keeps this folder under another name."
            )
        # The records come first: if they are damaged, parts are unchanged for an older checkpoint.
        self._begin(state["mark"])
        self.pipeline.load_state_dict(state["pipeline"])
        if state["training"] != self.question.training:  # which the user has accepted
            self.pipeline.known.exchanged()
        self.memory = replace(state["memory"])
        self._began = time.perf_counter()

    @property
    def elapsed_s(self) -> float:
        """Seconds spent on the run, earlier sessions included."""
        return self.memory.elapsed_s + time.perf_counter() - self._began

    def spent(self) -> str | None:
        """Returns the name of the budget that is used up; None if none is."""
        bounds = asdict(self._config.budget)
        now = {"generated_tokens": self._training_tokens(), "seconds": self.elapsed_s}
        now["verifier_calls"] = self.memory.verifier_calls
        return next((k for k, n in now.items() if bounds[k] is not None and n >= bounds[k]), None)

    def paused(self) -> bool:
        return self._is_paused

    def evaluate(self, *, update: int) -> Heldout:
        """Measures the held-out reward of the engine's policy and adds a point to the curve."""
        lease.enter("evaluate")
        NOW.enter("evaluating", of=len(self.question.prompts) * self.question.samples)
        began = time.perf_counter()
        groups = self.pipeline.evaluate(
            self.question.prompts,
            generate=self._generate,
            num_samples=self.question.samples,
            sampling=self._config.evaluation.sampling,
            label=f"eval@{update}",
        )
        heldout = self.question.summarise(groups)
        if self._by_others and not self.memory.curve:
            heldout = replace(heldout, disagreed=asked_again(groups, desk=self.pipeline.desk))
        self.memory.latest = heldout
        lost = sum(heldout.unscorable.values())
        point = (update, self._training_tokens(), self.elapsed_s, heldout.accuracy)
        self.memory.curve.append(point)
        self.memory.unscorable.append(lost)
        metrics = {
            HELDOUT: heldout.accuracy,
            "heldout/n": float(heldout.n),
            "heldout/unscorable": float(lost),
            "heldout/cut": float(heldout.cut),
            "heldout/seconds": time.perf_counter() - began,
        }
        self._records.append(update, metrics=metrics)
        self._tracker.log(update, metrics)
        self._doctor.note(update, metrics=metrics)
        return heldout

    def _training_tokens(self) -> int:
        # Evaluations are left out, or an arm that is asked more often would train on less.
        tokens = self.pipeline.tokens()
        return tokens["generated"] - tokens.get("evaluation", 0)

    def _begin(self, mark: Mark) -> None:
        """Truncates the records to `mark`, where the run resumes, and opens the store."""
        self._records.back_to(mark)
        self._doctor = Watcher(self._records)
        self._tracker.start(self._records.card(), folder=self._records.path)
        self.begun = True


def _step_metrics(metrics: Mapping[str, float], *, cost: Cost) -> dict[str, float]:
    times = {k: v for k, v in metrics.items() if k.endswith("_s") and "/" not in k}
    own = {k: v for k, v in metrics.items() if k.startswith(("correction/", "schedule/"))}
    # Beside the trainer, a batch costs it what it waits.
    made_s = 0.0 if "exposed_s" in times else cost.wall_s
    step_s = made_s + sum(times.values())
    return {
        **{f"time/{k}": v for k, v in times.items()},
        **{f"train/{k}": v for k, v in metrics.items() if k not in times | own},
        **own,
        "time/step_s": step_s,
        "rate/r_gen": cost.generate_s / max(step_s, cost.generate_s, 1e-9),
        "rate/sync_share": times.get("sync_s", 0.0) / max(step_s, 1e-9),
    }
