"""Pathologies that the Filter stage can act on."""

from itertools import pairwise
from math import inf
from statistics import fmean
from typing import Final

from gfcr.doctor.history import History
from gfcr.doctor.rule import Overrides, Rule, Spec
from gfcr.doctor.shapes import kept, largest, mean, scale, scaled
from gfcr.tracking.names import HELDOUT

_GATES: Final = ("format_gate", "json_gate", "parse_gate")
_FAILED: Final = tuple(f"group/{gate}_failed" for gate in _GATES)


def _priced(gate: str) -> Overrides:
    """Returns the overrides by which failing this gate costs reward, where a strategy has it."""

    def overrides(spec: Spec) -> tuple[str, ...]:
        labels = {part["name"]: label for label, part in spec["strategy"]["filters"].items()}
        if gate not in labels:
            return ()
        at = f"strategy.filters.{labels[gate]}"
        return (f"{at}.failing=add", f"{at}.reward=-0.5")

    return overrides


def _growth(history: History) -> float | None:
    """Returns how much longer answers became; 0 where the reward has risen with them."""
    length, gain = kept("length/all/mean")(history), history.gain("reward/all")
    if length is None or gain is None:
        return None
    return 0.0 if gain > 0.02 * scale(history) else length - 1


def _below_its_best(history: History) -> float | None:
    """Returns what share of its scale the held-out score, as means of two evaluations, has lost.

    It is counted from the best. 0 where the reward has not risen by 0.02 of it, and where so few
    answers waver by as much: three standard errors of a difference of two such means, as the best
    of many is good by luck.
    """
    gain, held = history.gain("reward/all"), history.series(HELDOUT).values
    if gain is None or len(held) < 4:
        return None
    means, answers = [fmean(pair) for pair in pairwise(held)], history.series("heldout/n").values
    # An evaluation that nobody could score has no answers, and no score either.
    lost, luck = max(means) - means[-1], 1.5 / min(filter(None, answers), default=inf) ** 0.5
    share = lost / (unit := scale(history))
    return share if gain > 0.02 * unit and share > luck else 0.0


RULES: Final = (
    Rule(
        # A gate's failures come of the form, not of the reasoning.
        name="format_failures",
        cell="F5.2",
        says="{figure:.0%} of the rollouts fail a structural gate.",
        figure=largest(*map(mean, _FAILED)),
        limit=0.3,
        metrics=_FAILED,
        advice={
            **dict.fromkeys(map(_priced, _GATES), "a price on the form, so that it is learned"),
            scaled("sampling.temperature", by=0.7): "fewer slips of the form",
            "strategy=few_shot": "shows answers of the right form first",
        },
    ),
    Rule(
        # All groups were rejected: the update counts and moves nothing.
        name="idle_updates",
        cell="F5.6",
        says="{figure:.0%} of the updates had nothing to train on.",
        figure=mean("train/skipped"),
        limit=0.2,
        metrics=("train/skipped",),
        advice={
            "strategy.controls.refill={name: refill, when_spent: short}": (
                "rejected groups are replaced by further ones"
            ),
            scaled("strategy.group_size", by=2): "larger groups, which are seldom all alike",
        },
    ),
    Rule(
        # A coin contradicts itself on half of the pairs (2306.05685). Such a pair counts as a tie,
        # and a group of ties teaches nothing.
        name="judge_flips",
        cell="F5.5",
        says=(
            "the judge contradicts itself on {figure:.0%} of the pairs when their order is changed."
        ),
        figure=mean("controls.judge/flip_rate"),
        limit=0.4,
        metrics=("controls.judge/flip_rate", "controls.judge/first_share"),
        advice={
            "strategy.controls.judge.judge.temperature=0.0": (
                "the judge's likeliest verdict, and not a draw"
            ),
            "strategy=self_judge": "scores each answer by itself, so that there is no order",
        },
    ),
    Rule(
        # Tokens are spent that buy no reward: a bias of the loss to long answers, or padding that
        # a verifier does not mind (2503.20783).
        name="length_inflation",
        cell="F5.7",
        says="answers are {figure:.0%} longer than they were, and the reward has not risen.",
        figure=_growth,
        limit=0.5,
        metrics=("length/all/mean",),
        advice={
            "strategy.loss.aggregation=dr_grpo": "long wrong answers are discouraged in full",
            "strategy=kimi_length": "prefers the shorter ones of the right answers",
            "strategy=gfpo": "trains on the answers that earn most per token",
        },
    ),
    Rule(
        # What is rewarded is not what is wanted: prompts learned by heart, or a verifier's false
        # positives (2605.02913).
        name="reward_hacking",
        cell="F5.5",
        says=(
            "the held-out score lies {figure:.0%} of its scale below its best, while the training "
            "reward rises."
        ),
        figure=_below_its_best,
        limit=0.1,
        metrics=("reward/all", HELDOUT),
        advice={
            scaled("trainer.beta", by=2, least=0.04): "a KL term holds the policy near its start",
            scaled("prompts", by=2): "more prompts in an update, each of which weighs less",
            scaled("trainer.learning_rate", by=0.1): "smaller steps, of which fewer are lost",
        },
    ),
    Rule(
        # What is cut has no answer to score: its reward says nothing of its reasoning (2503.14476).
        name="truncation",
        cell="F5.2",
        says="{figure:.0%} of the rollouts that are trained were cut at the token cap.",
        figure=mean("length/trained/truncated"),
        limit=0.1,
        metrics=("length/trained/truncated", "length/all/truncated"),
        advice={
            "strategy.filters.truncation={name: truncation_gate}": (
                "leaves rollouts that were cut out of the loss"
            ),
            scaled("sampling.max_tokens", by=2): "room for the longest answers",
            (
                "strategy.filters.soft_overlong={name: soft_overlong}",
                "strategy.order.filters=[soft_overlong]",
            ): "a reward that falls before the cap is met",
        },
    ),
    Rule(
        # Rollouts without a verdict are left out of the update: the batch shrinks, and what is
        # left may be biased to what is easy to judge.
        name="unscorable",
        cell="F5.3",
        says="{figure:.0%} of the rollouts got no verdict.",
        figure=mean("rollouts/unscorable", over="rollouts/all"),
        limit=0.1,
        metrics=("rollouts/unscorable", "rollouts/all"),
        advice={
            scaled("task.timeout_s", by=2): (
                "more time for each verdict, if `unscorable/timed_out` counts them; any other "
                "`unscorable/REASON` names what the verifier raised: mend that"
            ),
            "strategy.filters.parse_gate={name: parse_gate}": (
                "leaves out what no verifier can read"
            ),
        },
    ),
)
