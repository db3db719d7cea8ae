"""The drop-in for unmodified TRL scripts: `GRPOTrainer(..., rollout_func=make_rollout_func(...))`.

Only generation is gfcr's then: TRL fixes the number of completions and computes advantages from
its own reward functions. Filters that drop, refill, adaptive group sizes, replay and custom
advantages need `gfcr.train.trl`.
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Protocol, TypeAlias

from gfcr.engine.base import Weights
from gfcr.errors import EngineError
from gfcr.train.adapters import check_mergeable, policy_weights
from gfcr.types import Rollout

TrlPrompt: TypeAlias = str | list[dict[str, Any]]
"""A dataset's `prompt`: text, or a conversation as a list of messages."""

RolloutFunc: TypeAlias = Callable[[list[TrlPrompt], Any], dict[str, list[Any]]]


class GenerateN(Protocol):
    """Samples completions with the policy that was synced last."""

    def __call__(self, prompts: Sequence[TrlPrompt], *, counts: Sequence[int]) -> list[Rollout]:
        """Returns `counts[i]` rollouts of `prompts[i]`, prompt by prompt, in order."""
        ...


class Sync(Protocol):
    """Syncs the trainer's policy to an engine; `BatchSource.sync` is one."""

    def __call__(self, weights: Weights, *, version: int) -> None:
        """Loads the policy after `version` updates."""
        ...


def make_rollout_func(generate: GenerateN, *, sync: Sync) -> RolloutFunc:
    """Builds a TRL `rollout_func` from anything that can generate.

    Besides TRL's keys each row carries `rollout_reward`, the verifier's reward, which `reward`
    passes on to TRL. Environment tokens (`Rollout.mask_T` False) are masked out of the loss.

    Args:
        generate: Called once per generation batch, with each prompt once.
        sync: Called before it whenever the policy has changed.
    """
    state: Any = None
    synced = 0

    def rollout_func(prompts: list[TrlPrompt], trainer: Any) -> dict[str, list[Any]]:
        nonlocal state, synced
        version: int = trainer.state.global_step
        # Each `train` has a state of its own, and counts its steps from 0.
        if state is not trainer.state or synced != version:
            policy = trainer.accelerator.unwrap_model(trainer.model)
            check_mergeable(policy)
            sync(policy_weights(policy), version=version)
            state, synced = trainer.state, version
        # TRL repeats each prompt `num_generations` times in a row; a process's slice may start
        # within a group, so runs are counted and not assumed.
        runs = [(prompt, len(list(run))) for prompt, run in groupby(prompts)]
        rollouts = generate([p for p, _ in runs], counts=[n for _, n in runs])
        _check(rollouts, expected=len(prompts))
        return {
            "prompt_ids": [list(r.prompt.tokens) for r in rollouts],
            "completion_ids": [r.tokens_T.tolist() for r in rollouts],
            "logprobs": [r.logprobs_T.tolist() for r in rollouts],
            "env_mask": [r.mask_T.astype(int).tolist() for r in rollouts],
            "rollout_reward": [r.reward for r in rollouts],
        }

    return rollout_func


def reward(
    prompts: list[TrlPrompt], completions: list[Any], rollout_reward: list[float | None], **_: Any
) -> list[float | None]:
    """A TRL reward function: the verifier's reward of each rollout (None is unscorable)."""
    return rollout_reward


def _check(rollouts: Sequence[Rollout], *, expected: int) -> None:
    if len(rollouts) != expected:
        raise EngineError(
            f"TRL asked for {expected} completions and got {len(rollouts)}: rollout_func can "
            "neither drop nor add any. Use the trainer `trl` of gfcr for filters and refill."
        )
    empty = [r.id for r in rollouts if not len(r)]
    if empty:
        raise EngineError(
            f"rollouts {', '.join(empty[:5])} have no tokens, which TRL cannot train on: generate "
            "at least one token for each."
        )
