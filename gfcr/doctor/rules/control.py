"""Pathologies that the Control stage can act on."""

from itertools import pairwise
from typing import Final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Rule, Spec
from gfcr.doctor.shapes import excused, kept, mean, rest, scale, scaled
from gfcr.values.reading import inline

_SOME: Final = 0.05
"""A reward's share of its scale, or an entropy, below which a change by a factor says nothing."""
_FORM: Final = ("train/entropy", "length/all/mean")
_SHAPE: Final = {"reward/all", *_FORM}
_UNFILTERED: Final = {"top_p": 1.0, "top_k": 0, "min_p": 0.0}


def _own_gap(history: History) -> float | None:
    """Reads the gap where all tokens were sampled by the trained policy, under its own law."""
    stale, moved = history.last("off_policy/share"), history.last("off_policy/moved")
    return history.last("train/logprob_gap") if stale == 0 and not moved else None


def _unfiltered(spec: Spec) -> tuple[str, ...]:
    own = spec["sampling"]
    return tuple(f"sampling.{key}={off}" for key, off in _UNFILTERED.items() if own[key] != off)


def _broken_at_once(history: History) -> float | None:
    """Returns the largest share of the reward that went from one update to the next.

    It counts only where entropy or length changed by a factor of two with it: other prompts may be
    harder, and are answered in the same manner.
    """
    some = _SOME * scale(history)
    logged = [m for _, m in history.lines if m.keys() >= _SHAPE]
    lost = [
        1 - now["reward/all"] / before["reward/all"]
        for before, now in pairwise(logged)
        if before["reward/all"] > some and any(_halved(before[k], now[k]) for k in _FORM)
    ]
    return max(lost, default=0.0) if logged[1:] else None


def _halved(before: float, now: float) -> bool:
    low, high = sorted((before, now))
    return high > _SOME and high >= 2 * low


def _longer_with_drafts(history: History) -> float | None:
    speedup = history.last("speculation/speedup")
    return None if speedup is None else 1 / speedup - 1


def _steered(spec: Spec) -> tuple[str, ...]:
    steered = {"name": "auto", "drafter": dict(spec["strategy"]["drafter"])}
    return (f"strategy.drafter={inline(steered)}",)


def _taught(spec: Spec) -> tuple[str, ...]:
    own = spec["strategy"]["drafter"]
    taught = inline({**own, "name": "online"})
    return (f"strategy.drafter={taught}",) if own["name"] == "draft_model" else ()


def _served(spec: Spec) -> tuple[str, ...]:
    served = {"vllm": "engine.name=vllm_server", "vllm_server": "engine={name: pool, size: 2}"}
    return (served[name],) if (name := spec["engine"]["name"]) in served else ()


def _further_ahead(spec: Spec) -> tuple[str, ...]:
    staleness = 2 * spec.get("schedule", {}).get("staleness", 1)
    return (f"schedule={{name: async, staleness: {staleness}}}",)


def _not_in_flight(history: History) -> float | None:
    """Returns what tokens per forward pass over rollouts lack of 1.

    A batch whose rollouts are all in flight from its first pass to its last has 1.
    """
    # Passes are the batch's alone, and what is generated counts evaluations between batches too.
    own = history.increments("tokens/generated").increments("tokens/evaluation")
    a_pass = own.last("tokens/generated", over="engine/forward_passes")
    not_its = own.last("tokens/evaluation", over="engine/forward_passes")
    rollouts, aborted = history.last("rollouts/all"), history.last("rollouts/aborted")
    if a_pass is None or not_its is None or not rollouts or aborted is None:
        return None
    episodes, size = history.last("group/episodes"), history.last("group/size")
    if episodes and size:  # whose turns, rollouts of their own, cannot be in flight together
        rollouts *= episodes / size
    return 1 - (a_pass - not_its) / (rollouts + aborted)


RULES: Final = (
    Rule(
        # Rewards of a group that are all the same give no advantage: its tokens are paid, and the
        # batch is smaller than it seems (2503.14476).
        name="dead_groups",
        cell="C6.2",
        says=(
            "{figure:.0%} of the groups in an update have no gradient: their rewards are all the "
            "same."
        ),
        figure=rest(mean("coverage/live")),
        limit=0.5,
        metrics=("coverage/live", "coverage/solved"),
        advice={
            (
                "strategy.filters.zero_variance={name: zero_variance}",
                "strategy.controls.refill={name: refill, when_spent: short}",
            ): "dynamic sampling: dead groups are replaced by further ones",
            "strategy=greso": "skips prompts whose groups were dead before they are rolled out",
            "strategy=rl_zvp": "lets groups without a spread teach by their tokens' entropies",
        },
    ),
    Rule(
        # Rejected, aborted, surplus: `tokens/...` says which. Tokens are the price of a run, so a
        # comparison per update hides it.
        name="discarded",
        cell="C6.2",
        says="{figure:.0%} of the sampled tokens are not trained.",
        figure=mean("cost/discarded"),
        limit=0.5,
        metrics=("cost/discarded",),
        advice={
            "strategy=greso": "skips prompts whose groups were dead before they are rolled out",
            "strategy=mopps": "draws the prompts that are solved half of the time",
            (
                "strategy.replays.partial_rollouts={name: partial_rollouts}",
                "strategy.correction=truncated",
            ): "what is aborted goes on in the next update",
        },
    ),
    Rule(
        # On what this very policy sampled, log-probs differ by sampling filters that the trainer
        # knows nothing of, by another precision, or by weights that did not arrive.
        name="engine_gap",
        cell="C6.7",
        says=(
            "log-probs of engine and trainer differ by {figure:.3f} nats on what this policy "
            "sampled."
        ),
        figure=_own_gap,
        limit=0.02,
        metrics=("train/logprob_gap",),
        advice={
            _unfiltered: "samples from the policy that is trained",
            "engine.dtype=float32": "the trainer's precision",
            "strategy.correction=truncated": "weighs each token by the trainer's own law",
        },
    ),
    Rule(
        # Entropy falls while a policy learns; where it has gone and prompts stay unsolved, what is
        # sampled no longer differs (2505.22617).
        name="entropy_collapse",
        cell="C6.4",
        says=(
            "the entropy has lost {figure:.0%} of what it was, and more than one group in ten is "
            "unsolved."
        ),
        figure=excused(rest(kept("train/entropy")), by="coverage/solved", above=0.9),
        limit=0.7,
        metrics=("train/entropy",),
        advice={
            scaled("sampling.temperature", by=1, least=1.0): "samples the policy as it is",
            (
                "strategy.controls.entropy_temperature={name: entropy_temperature}",
                "strategy.correction=truncated",
            ): "the temperature follows a target entropy",
            scaled("prompts", by=2): "more prompts in an update, so that none is learned by heart",
        },
    ),
    Rule(
        # A step that is too large for a model takes what it could, and makes it another: sure of
        # itself or babbling, brief or without an end.
        name="policy_jump",
        cell="C6.4",
        says=(
            "{figure:.0%} of the reward went in one update, and rollouts became others: the step "
            "was too large for the model."
        ),
        figure=_broken_at_once,
        limit=0.8,
        metrics=("reward/all", "train/entropy", "length/all/mean"),
        advice={
            scaled("trainer.learning_rate", by=0.1): "pretrained models take about 1e-6",
            scaled("prompts", by=2): "an update over more prompts",
        },
    ),
    Rule(
        # Where the policy has moved away from what sampled the batch, few tokens carry an
        # importance-weighted update, and without weights it is biased.
        name="off_policy_drift",
        cell="C6.7",
        says=(
            "the trained tokens are worth {figure:.0%} fewer under the policy that learns from "
            "them."
        ),
        figure=rest(mean("train/effective_share")),
        limit=0.1,
        metrics=("train/effective_share",),
        advice={
            "strategy.correction=truncated": "weighs each token by min(pi / pi_sampled, cap)",
            "strategy.replays.partial_rollouts.max_staleness=1": "drops what is older than that",
            scaled("strategy.replays.group_replay.max_age", by=0.5): "forgets groups sooner",
            scaled("trainer.learning_rate", by=0.1): "smaller steps between sampling and use",
            "strategy.loss.off_policy=behaviour": "clips against the policy that sampled",
            "schedule.staleness=1": "batches are begun under the policy before, at the earliest",
            "schedule.updates=1": "batches are made by the policy before",
        },
    ),
    Rule(
        # Accepted lengths fall as the policy moves away from what the drafter knows. The token
        # that is always sampled is no draft's.
        name="stale_drafts",
        cell="C6.8",
        says="drafts are accepted {figure:.0%} less far than at the start.",
        figure=rest(kept("speculation/acceptance_length", floor=1.0)),
        limit=0.3,
        metrics=("speculation/acceptance_length",),
        advice={
            "strategy.drafter=das": "drafts from the rollouts of the latest updates",
            _taught: "trains the draft model on what is sampled",
            "strategy.drafter=none": "no speculation",
        },
    ),
    Rule(
        # Batches made ahead hide generation behind training. Where the trainer waits all the same,
        # its rollouts are older for nothing.
        name="starved_trainer",
        cell="C6.8",
        says="batches are made ahead, and the trainer waits for them {figure:.0%} of the time.",
        figure=mean("time/exposed_s", over="time/step_s"),
        limit=0.3,
        metrics=("time/exposed_s", "time/step_s"),
        advice={
            _served: "servers sample beside the trainer, not in turn with it",
            scaled("engine.size", by=2): "more servers sample",
            "strategy.drafter=suffix": "speculation: several tokens of a rollout a pass",
            _further_ahead: "a long rollout holds up one batch of several",
            "schedule=sync": "rollouts of the policy that learns from them",
        },
    ),
    Rule(
        # An update waits for its longest rollout, with an engine that is mostly empty by then; so
        # it does for each further round of rollouts (2509.18521).
        name="straggler_tail",
        cell="C6.5",
        says=(
            "{figure:.0%} of an update's rollouts are not in flight while the engine works, on "
            "average."
        ),
        figure=_not_in_flight,
        limit=0.7,
        metrics=("engine/forward_passes", "length/all/p99", "length/all/p50"),
        advice={
            scaled("strategy.controls.refill.oversample", by=2): "all replacements in one round",
            (
                "strategy.controls.oversample={name: oversample, factor: 2.0}",
                "strategy.replays.partial_rollouts={name: partial_rollouts}",
                "strategy.correction=truncated",
            ): "APRIL: the first to finish are trained, the others go on in the next update",
            "strategy=rollpacker": "prompts with long answers wait for a batch of their own",
            "strategy.drafter=das": "speculation: several tokens of a long rollout a pass",
        },
    ),
    Rule(
        # Each rejected token took a place in a forward pass: speculation pays where several tokens
        # of a draft are accepted, however long the draft was.
        name="wasted_drafts",
        cell="C6.8",
        says="{figure:.0%} of the drafted tokens are rejected.",
        figure=excused(
            rest(mean("speculation/accepted", over="speculation/drafted")),
            by="speculation/acceptance_length",
            above=2.0,
        ),
        limit=0.8,
        metrics=("speculation/drafted", "speculation/accepted"),
        advice={
            "strategy.drafter=das": "drafts from this run's own rollouts",
            "strategy.drafter=none": "no speculation",
        },
    ),
    Rule(
        # A pass over drafted tokens takes longer where computing is what limits it, as on CPUs. The
        # limit leaves room for the estimate's error.
        name="costly_drafts",
        cell="C6.8",
        says="decoding takes {figure:.0%} more seconds with drafts than it would without.",
        figure=_longer_with_drafts,
        limit=0.25,
        metrics=("speculation/speedup",),
        advice={
            _steered: "drafts as much as is fastest, which may be nothing",
            "strategy.drafter=none": "no speculation",
        },
    ),
)
