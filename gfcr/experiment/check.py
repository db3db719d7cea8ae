"""Checks that the parts of an experiment fit each other, before anything starts.

Each part says what it needs: `Strategy.check`, `Filter.check`, `TrainerConfig.check`,
`EngineConfig.check` and `context`. `gfcr.values.ranges` says what one field may hold.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from heapq import nlargest
from typing import Final

from gfcr.config import Experiment
from gfcr.errors import ConfigError, TaskError, unknown_name
from gfcr.experiment.resolved import Resolved
from gfcr.process.launched import check_launch, place
from gfcr.tasks.base import Codec, LazyPrompts, Problems
from gfcr.types import Prompt, Sampling

MOST_ROLLOUTS: Final = 1_000_000
"""The most rollouts of an update or a held-out evaluation, which are all in memory at once."""
HELDOUT_METRICS: Final = ("accuracy", "cut", "n", "seconds", "unscorable")
_ENCODED: Final = 2_000
"""The most prompts of a split whose lengths are checked: encoding all of a large one takes minutes.
A longer one that is not among them ends the run with its name when its turn comes."""


def check(resolved: Resolved) -> None:
    """Refuses parts that do not fit each other; uses neither the task nor the model.

    Raises:
        ConfigError: two parts do not fit; names the keys.
    """
    config, strategy = resolved.config, resolved.strategy
    rollouts = strategy.generate.rollouts(strategy.group_size)
    knobs = ", ".join(f"{k}={v}" for k, v in resolved.spec["strategy"]["generate"].items())
    each = f"rollouts a prompt (strategy.group_size={strategy.group_size}, generate: {knobs})"
    _check_size("prompts", config.prompts, each, rollouts)
    evaluation = config.evaluation
    _check_size("evaluation.prompts", evaluation.prompts, "evaluation.samples", evaluation.samples)
    strategy.check()
    resolved.engine.check(strategy.drafter)
    _check_metric(config)
    correction = strategy.correction
    resolved.trainer.check(strategy.loss, correction=correction, sampling=config.sampling)
    _check_launched(resolved)
    if resolved.schedule.overlaps and (sleep := resolved.spec["engine"].get("sleep")):
        raise ConfigError(
            f"engine.sleep={sleep} with schedule.name={resolved.spec['schedule']['name']}: batches "
            "are made beside the trainer, and the engine is never idle while it trains. Give "
            "schedule.name=sync, or engine.sleep=0."
        )


def uncorrected(resolved: Resolved) -> str:
    """Returns a warning if the loss takes tokens of earlier policies for its own; empty if not."""
    strategy, oldest = resolved.strategy, resolved.schedule.oldest
    name = resolved.spec.get("schedule", {}).get("name")
    by = strategy.correction
    heeded = strategy.loss.off_policy == "behaviour" or (by and by.heeds(oldest=oldest))
    if not oldest or heeded or strategy.estimator in ("sft", "dpo"):
        return ""
    return (
        f"WARNING: with schedule.name={name} tokens are of a policy up to {oldest} "
        f"update{'s' * (oldest > 1)} ago, and the loss takes them for the present one's. Give "
        "strategy.correction=truncated, or, without one, strategy.loss.off_policy=behaviour."
    )


def check_problems(resolved: Resolved, problems: Problems, *, codec: Codec, model: str) -> str:
    """Refuses prompts that the model cannot answer in as many tokens as asked for.

    Returns:
        How long the longest prompt to train on is, beside the room that there is.

    Raises:
        ConfigError: an empty prompt, one that leaves no room for `max_tokens`, or a stop that the
            text of no completion has.
        TaskError: there is nothing to train on.
    """
    if not problems.train:
        raise TaskError("the task has no prompts to train on: give it at least one.")
    room = resolved.engine.context(model)
    evaluation = resolved.config.evaluation
    asked = problems.heldout[: evaluation.prompts]
    longest = _check_room(problems.train, resolved.config.sampling, key="sampling", room=room)
    _check_room(asked, evaluation.sampling, key="evaluation.sampling", room=room)
    check_stops(resolved.config.sampling, key="sampling", codec=codec)
    check_stops(evaluation.sampling, key="evaluation.sampling", codec=codec)
    for generate in (resolved.strategy.generate, resolved.generate):
        generate.check(codec.encode)
    some = f" of {_ENCODED:,} looked at" if len(problems.train) > _ENCODED else ""
    context = "" if room is None else f", of {room:,} for prompt and answer"
    return f"longest prompt{some} {longest:,} tokens{context}"


def check_stops(sampling: Sampling, *, key: str, codec: Codec) -> None:
    """Refuses stops that are looked for in a text which never has them.

    Raises:
        ConfigError: one holds a special token, and completions are decoded without.
    """
    for stop in sampling.stop:
        with suppress(TaskError):  # what the vocabulary cannot write
            if lost := codec.unsaid(codec.encode(stop)):
                raise ConfigError(
                    f"{key}.stop={stop!r} would end nothing: {lost[0]} is a special token, which "
                    f"the text that stops are looked for in lacks. Give its id in "
                    f"{key}.stop_token_ids, or task.raw_text=true."
                )


def _check_launched(resolved: Resolved) -> None:
    """Refuses an engine or trainer that cannot run in several processes launched together."""
    check_launch()
    if (size := place().size) == 1:
        return
    if resolved.engine.alone:
        raise ConfigError(
            f"engine.name={resolved.spec['engine']['name']} sets up torch.distributed in "
            f"its process for itself, and {size} processes were launched to train together: give "
            "engine.name=vllm_server, which generates in a process of its own."
        )
    if not resolved.trainer.spreads:
        raise ConfigError(
            f"trainer.name={resolved.spec['trainer']['name']} trains in one process, and "
            f"{size} were launched: give trainer.name=trl, or start without `accelerate launch`."
        )


def _check_size(key: str, groups: int, each: str, rollouts: int) -> None:
    if groups * rollouts > MOST_ROLLOUTS:
        raise ConfigError(
            f"{key}={groups} with {rollouts} {each} are {groups * rollouts} rollouts at once: give "
            f"at most {MOST_ROLLOUTS} in all."
        )


def _check_metric(config: Experiment) -> None:
    space, _, name = config.metric.partition("/")
    if space == "heldout" and name not in HELDOUT_METRICS:
        allowed = [f"heldout/{known}" for known in HELDOUT_METRICS]
        raise unknown_name(config.metric, kind="metric", allowed=allowed)


def _check_room(
    prompts: Sequence[Prompt], sampling: Sampling, *, key: str, room: int | None
) -> int:
    """Returns the number of tokens of the longest prompt."""
    longest = 0
    for prompt in map(prompts.__getitem__, _looked_at(prompts)):
        if not prompt.tokens:
            raise ConfigError(f"prompt {prompt.id} of the task is empty: give it a text.")
        if room is not None and len(prompt.tokens) + sampling.max_tokens > room:
            raise ConfigError(
                f"{key}.max_tokens={sampling.max_tokens} does not fit: prompt {prompt.id} has "
                f"{len(prompt.tokens)} tokens and a sequence at most {room} (engine.max_length, or "
                f"the model's context). Give at most {max(0, room - len(prompt.tokens))}, or "
                "shorter prompts."
            )
        longest = max(longest, len(prompt.tokens))
    return longest


def _looked_at(prompts: Sequence[Prompt]) -> Iterable[int]:
    """Returns the indices of those whose lengths are checked: of a dataset, the longest texts."""
    if isinstance(prompts, LazyPrompts):
        sizes = [row.characters for row in prompts.rows]
        return nlargest(_ENCODED, range(len(sizes)), key=sizes.__getitem__)
    # They are spread over the prompts, as sorted ones have the longest together.
    num = min(len(prompts), _ENCODED)
    return [place * len(prompts) // num for place in range(num)]
