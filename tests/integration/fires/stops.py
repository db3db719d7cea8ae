"""Rollout configuration, continuation and stop rules at work."""

import re
from itertools import pairwise
from math import cos, pi

import numpy as np

from gfcr.ledger import ABORTED
from gfcr.types import FinishReason
from tests.integration.demo_floor import fresh, positions
from tests.integration.fires.case import Case, Done

CAP = 160
"""Of the floor's rollouts."""


def caps(done: Done) -> None:
    assert done.metric("controls.length_schedule/cap") == [8, CAP]
    first, second = ([r for g in b.groups for r in g.rollouts] for b in done.batches)
    assert max(map(len, first)) == 8 < max(map(len, second))
    assert any(r.finish == FinishReason.LENGTH for r in first)


def defers(done: Done) -> None:
    assert done.metric("controls.roll_packer/deferred") == [4, 0]
    assert done.metric("controls.roll_packer/long") == [0, 1]
    first, second = done.batches
    assert {g.prompt.id for g in second.groups} == {r.prompt.id for r in first.aborted}
    assert not second.aborted and done.run.tokens()[ABORTED] == sum(map(len, first.aborted))
    # Begun afresh: what is trained is the current policy's.
    assert all((s.rollout.versions_T == 1).all() for s in second.samples)


def prunes(done: Done) -> None:
    assert done.metric("controls.darts/begun") == [8, 8]
    for batch in done.batches:
        pruned = [r for r in batch.aborted if r.detail == "controls.darts: tail"]
        assert batch.metrics["controls.darts/pruned"] == len(pruned) > 0
        for group in batch.groups:
            cut = sum(r.group_id == group.id for r in pruned)
            assert len(group.rollouts) == 8 - cut >= 6 and group.kept_N.sum() == 4
            lengths = np.array([len(r) for r in group.rollouts])
            kept = np.sort(lengths[group.kept_N])
            assert (kept == np.sort(lengths)[[0, 1, -2, -1]]).all()


def gives_up(done: Done) -> None:
    stopped = [g for g in done.groups if g.rejected == "similar_prefixes"]
    trained = [g for g in done.groups if g.rejected is None]
    assert sum(done.metric("controls.selective_rollout/stopped")) == len(stopped) > 0 < len(trained)
    cut = [r for b in done.batches for r in b.aborted]
    assert {r.group_id for r in cut} <= {g.id for g in stopped}
    assert all(r.notes["prefix_distance"] < 0.3 for r in cut)
    seen = [r.notes.get("prefix_distance", 1.0) for g in trained for r in g.rollouts]
    assert min(seen) >= 0.3


def halts(done: Done) -> None:
    halted = [r for r in fresh(done.batches) if r.finish == FinishReason.HALTED]
    assert sum(done.metric("controls.answer_stop/halted")) == len(halted) > 0
    for rollout in halted:
        steps = [m[1] for m in re.finditer(r"=(\d)", rollout.text) if m.end() < len(rollout.text)]
        assert any(a == b for a, b in pairwise(steps))


def forces(done: Done) -> None:
    (marker,) = done.run.codec.encode("#")
    forced = [r for r in fresh(done.batches) if r.notes["forced"]]
    assert forced and len(forced) < len(fresh(done.batches))
    for rollout in fresh(done.batches):
        own = np.flatnonzero(~rollout.mask_T).tolist()
        assert own == ([24] if rollout.notes["forced"] else [])
        assert all(rollout.tokens_T[at] == marker for at in own)
        assert "#" in rollout.text or len(rollout) < 24 or rollout.finish == FinishReason.LENGTH
    assert any(len(r) > 25 for r in forced)


def cuts_branches(done: Done) -> None:
    cut = [r for b in done.batches for r in b.aborted]
    assert sum(done.metric("controls.branch_prune/pruned")) == len(cut) > 0
    assert all(r.detail.startswith("controls.branch_prune: confidence") for r in cut)
    for rollout in cut:
        own, bar = (float(n) for n in re.findall(r"-[\d.e-]+", rollout.detail))
        np.testing.assert_allclose(rollout.logprobs_T[-8:].mean(), own, rtol=0.01)
        assert own <= bar
    assert any(r.parent for g in done.groups for r in g.rollouts)
    shared = len(positions([r for g in done.groups for r in g.rollouts]) & positions(cut))
    assert done.run.tokens()[ABORTED] == len(positions(cut)) - shared


def pays_by_cosine(done: Done) -> None:
    for group in done.groups:
        for rollout, signal in zip(group.rollouts, group.signals, strict=True):
            wave = (1 + cos(pi * len(rollout) / CAP)) / 2
            wanted = 1 + wave if rollout.reward else -10 * wave
            if rollout.finish == FinishReason.LENGTH:
                wanted = -10.0
            np.testing.assert_allclose(signal.reward, wanted, atol=1e-6)
    assert any(np.ptp(g.raw_rewards_N) == 0 < np.ptp(g.rewards_N) for g in done.groups)


def pays_for_short(done: Done) -> None:
    for group in done.groups:
        lengths = np.array([len(r) for r in group.rollouts])
        bonus = 0.5 - (lengths - lengths.min()) / max(np.ptp(lengths), 1)
        bonus = np.where(group.raw_rewards_N > 0, bonus, np.minimum(bonus, 0))
        wanted = group.raw_rewards_N + (bonus if np.ptp(lengths) else 0)
        np.testing.assert_allclose(group.rewards_N, wanted, atol=1e-6)
    assert any(np.ptp(g.raw_rewards_N) == 0 < np.ptp(g.rewards_N) for g in done.groups)


FEW = {"group_size": 4}
CASES = {
    "answer_stop": Case(check=halts, knobs={"pattern": r"=(\d)", "times": 2, "every": 2}),
    "budget_forcing": Case(check=forces, knobs={"thinking": 0.15}, trains=True),
    "cosine_length": Case(check=pays_by_cosine, knobs=FEW),
    "darts": Case(
        check=prunes, knobs=FEW | {"shortest": 2, "longest": 2, "redundancy": 1.0}, trains=True
    ),
    "kimi_length": Case(check=pays_for_short, knobs=FEW),
    "length_schedule": Case(check=caps, knobs=FEW | {"start": 0.05, "updates": 1}),
    "pruned_tree": Case(
        check=cuts_branches,
        knobs={"group_size": 3, "window": 8, "warmup": 2, "share": 0.9},
        prompts=2,
    ),
    "rollpacker": Case(check=defers, knobs=FEW | {"factor": 2.0}),
    "selective_rollout": Case(check=gives_up, knobs=FEW | {"checkpoint": 12, "threshold": 0.3}),
}
