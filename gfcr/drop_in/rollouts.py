"""Strategies for unmodified TRL scripts: `GRPOTrainer(..., rollout_func=rollout_func("NAME"))`.

vLLM generates with the strategy's Generate and Control parts; prompts, rewards, advantages, loss
and sampling settings stay TRL's own. `gfcr.drop_in.GRPOTrainer` has none of the limits named here.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

from gfcr import models, registry
from gfcr import strategy as strategies
from gfcr.drop_in.encode import prompt_of, sampling_of
from gfcr.engine.base import Engine
from gfcr.errors import ConfigError, GfcrError, asking
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.ledger import Ledger
from gfcr.loop.floor import Floor
from gfcr.loop.runner import Runner
from gfcr.loop.scoring import Desk
from gfcr.loop.stream import PromptStream
from gfcr.loop.view import RunView, shown
from gfcr.process import threads
from gfcr.stages import (
    AfterUpdate,
    Allocator,
    BatchMap,
    Evaluator,
    Follower,
    Harvest,
    Observer,
    Planner,
    Recaller,
    Referee,
    Selector,
    Watcher,
)
from gfcr.strategy import Strategy
from gfcr.tasks.base import TURNS, Codec, Problems, Task, Verdict
from gfcr.tasks.codec import HfCodec
from gfcr.train.rollout_func import TrlPrompt, make_rollout_func
from gfcr.types import FinishReason, Group, Loss, Prompt, Rollout


def rollout_func(
    strategy: str = "grpo",
    *,
    model: str,
    engine: Mapping[str, Any] | None = None,
    task: str | Mapping[str, Any] | None = None,
    seed: int = 0,
    **knobs: Any,
) -> "DropIn":
    """Starts an engine and returns what TRL's `rollout_func` argument takes.

    Args:
        strategy: name of a strategy that only generates and watches: group sizes are TRL's, and
            so are advantages.
        model: the model the trainer is given: a folder, a Hub id or a demo model.
        engine: settings of the engine, `{"dtype": "bfloat16"}`; vLLM unless it has a `name`.
        task: whose verifier scores the rollouts, for `reward_funcs=reward`; its problems must
            hold the dataset's prompts. Not needed with reward functions of your own.
        seed: of all draws.
        knobs: the strategy's knobs and parts, as in an experiment's `strategy`.

    Raises:
        ConfigError: the strategy needs more than `rollout_func` can express.
        EngineError: the engine cannot start.
    """
    threads.settle()
    built = strategies.load(strategy, **knobs)
    check(built)
    scorer = registry.build("task", task, where="task") if task else _Unscored()
    config = registry.build("engine", {"name": "vllm", **(engine or {})}, where="engine")
    folder = str(models.resolve(model))
    if built.drafter is not None:
        built.drafter.fetch(models.resolve)
    codec = HfCodec(folder)
    problems = scorer.problems(codec)
    started = config.start(model=folder, seed=seed, drafter=built.drafter)
    return DropIn(built, engine=started, codec=codec, task=scorer, problems=problems, seed=seed)


def check(strategy: Strategy) -> None:
    """Checks that the strategy works with TRL's fixed groups and advantages.

    Raises:
        ConfigError: it does not; names the parts, and what each would need.
    """
    limits = {
        Planner: "decides how many groups are begun",
        Selector: "chooses prompts",
        Allocator: "changes samples and caps of the jobs",
        Evaluator: "scores rollouts",
        Referee: "adds rollouts to groups or retires them",
        Recaller: "brings back earlier rollouts",
        BatchMap: "makes signals over the batch",
        AfterUpdate: "learns from the trainer's metrics",
        Follower: "follows the policy's weights",
    }
    found = [
        f"{address} {what}" for hook, what in limits.items() for address in strategy.hooks(hook)
    ]
    found += [
        f"filters.{name} measures, drops or makes advantages"
        for name, part in strategy.filters.items()
        if part != GroupAdvantage(kind="grpo")
    ]
    if strategy.generate.rollouts(strategy.group_size) != strategy.group_size:
        found.append("generate makes more rollouts than it was asked for")
    own, plain = strategy.loss, Loss()
    kinds = ("estimator", "off_policy", "form", "level", "delta")
    if wants := [f"{k}={getattr(own, k)!r}" for k in kinds if getattr(own, k) != getattr(plain, k)]:
        found.append(f"loss is {', '.join(wants)}")
    if strategy.correction:
        found.append("correction weighs tokens before the update")
    if found:
        raise ConfigError(
            f"strategy '{strategy.name}' cannot be a rollout_func: {'; '.join(found)}. TRL fixes "
            "the number of completions and computes advantages and loss itself. Use "
            "`gfcr.drop_in.GRPOTrainer(..., strategy=...)` (docs/trl.md), or remove these parts."
        )


@final
class DropIn:
    """Generates for TRL, as its `rollout_func`, with an engine that `close` frees."""

    def __init__(
        self,
        strategy: Strategy,
        *,
        engine: Engine,
        codec: Codec,
        task: Task,
        problems: Problems,
        seed: int,
    ) -> None:
        self.engine, self._strategy = engine, strategy
        self._known: dict[str, Prompt | None] = {}
        """The task's problems by conversation, and by the text of its last turn; None where
        several with other answers have it."""
        for prompt in (*problems.train, *problems.heldout):
            for key in {_asked(prompt), prompt.text}:
                other = self._known.setdefault(key, prompt)
                if other is not None and other.answer != prompt.answer:
                    self._known[key] = None
        self._scored = not isinstance(task, _Unscored)
        self._floor = Floor(engine=engine, codec=codec, desk=Desk(task), seed=seed)
        self._trainer: Any = None
        self._uses: Counter[tuple[int, bool, str]] = Counter()
        """How often a prompt was begun under a policy version, in training or in TRL's
        evaluation, which leaves training's draws as they are: a repeat draws anew."""
        self._call = make_rollout_func(self._generate, sync=self._sync)

    def __call__(self, prompts: list[TrlPrompt], trainer: Any) -> dict[str, list[Any]]:
        """Does what TRL asks of a `rollout_func`; samples as the trainer's settings say."""
        self._trainer = trainer
        return self._call(prompts, trainer)

    def close(self) -> None:
        """Frees the engine and stops the pools."""
        self._floor.desk.close()
        self.engine.close()

    def _sync(self, weights: Any, *, version: int) -> None:
        self._uses.clear()
        self.engine.update_weights(weights, version=version)

    def _generate(self, prompts: Sequence[TrlPrompt], *, counts: Sequence[int]) -> list[Rollout]:
        made = [self._prompt(p) for p in prompts]
        floor = replace(self._floor, ledger=Ledger())  # of this call: nobody asks for its bins
        view = self._view(made, floor=floor, group_size=max(counts))
        seen = shown(view)
        generate, watchers = self._strategy.generate, self._strategy.hooks(Watcher)
        runner = Runner(floor, generate=generate, watchers=watchers)
        for index, (prompt, num) in enumerate(zip(made, counts, strict=True)):
            use = (view.version, self._trainer.model.training, prompt.id)
            job = view.job(prompt, num_samples=num)
            runner.start(job, group_id=f"{index}:{prompt.id}", view=seen, repeat=self._uses[use])
            self._uses[use] += 1
        groups = runner.finish()
        self._observe(groups, runner=runner, view=view)
        rollouts = [r for g in groups for r in g.rollouts]
        _check_whole(rollouts)
        if not self._scored and any(r.reward is not None for r in rollouts):
            raise ConfigError(
                f"strategy '{self._strategy.name}' says itself what rollouts are worth, and a "
                "rollout_func's are scored by TRL's reward functions alone: use "
                "`gfcr.drop_in.GRPOTrainer(..., strategy=...)`, or give `task` and `reward`."
            )
        return rollouts

    def _observe(self, groups: Sequence[Group], *, runner: Runner, view: RunView) -> None:
        cut = tuple(runner.take_cut())
        harvest = Harvest(step=view.step, groups=tuple(groups), aborted=cut)
        for name, observer in self._strategy.hooks(Observer).items():
            with asking(name):
                observer.observe(harvest, view=shown(view))

    def _prompt(self, given: TrlPrompt) -> Prompt:
        prompt = prompt_of({"prompt": given}, trainer=self._trainer)
        if not self._scored:
            return prompt
        text, whole = prompt.text, _asked(prompt)
        if text not in self._known:
            raise ConfigError(
                f"the prompt {text[:60]!r} is none of the task's problems, so it cannot be "
                "verified: make the dataset of `task.problems(codec).train`, or leave `task` out "
                "and give GRPOTrainer a reward function of your own."
            )
        if (known := self._known[whole if whole in self._known else text]) is None:
            raise ConfigError(
                f"the prompt {text[:60]!r} is that of several problems of the task, with other "
                "answers, and TRL tells a rollout_func the prompt alone: leave all but one out, or "
                "use `gfcr.drop_in.GRPOTrainer(..., strategy=...)`."
            )
        return replace(known, tokens=prompt.tokens)

    def _view(self, prompts: Sequence[Prompt], *, floor: Floor, group_size: int) -> RunView:
        args = self._trainer.args
        return RunView(
            floor,
            step=self.engine.version,
            target=len(prompts),
            group_size=group_size,
            sampling=sampling_of(args),
            stream=PromptStream(prompts, seed=self._floor.seed),
        )


@final
class _Unscored(Task):
    """Has no problems and gives no verdicts: TRL's reward functions score."""

    def problems(self, codec: Codec) -> Problems:
        return Problems(train=(), heldout=())

    def verify(self, prompt: Prompt, *, text: str) -> Verdict:
        return Verdict(reward=None)


def _asked(prompt: Prompt) -> str:
    """Returns what is asked: all turns of a conversation, else the text."""
    turns = prompt.meta.get(TURNS)
    return json.dumps(turns, sort_keys=True) if turns else prompt.text


def _check_whole(rollouts: Sequence[Rollout]) -> None:
    failed = [r for r in rollouts if r.finish == FinishReason.ERROR]
    if failed:
        raise GfcrError(
            f"rollout {failed[0].id} failed ({failed[0].error}), and TRL cannot leave it out. Mend "
            "the Generate part, or use the trainer `trl` of gfcr, which trains on the others."
        )
