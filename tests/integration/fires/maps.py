"""Maps from rewards to what is learned at work: batch norms, subsets, trackers, pairs."""

import numpy as np

from tests.integration.fires.case import Case, Done


def whitens(done: Done) -> None:
    for batch in done.batches:
        every = np.concatenate([s.advantage_T[s.rollout.mask_T] for s in batch.samples])
        assert abs(every.mean()) < 1e-4 and abs(every.std(ddof=1) - 1) < 1e-2
        assert batch.metrics["filters.advantage/deviation"] > 0
    dead = [g for g in done.groups if np.ptp(g.raw_rewards_N) == 0]
    assert all(s.advantage for g in dead for s in g.signals)  # taught too, unlike by GRPO


def sums_two_rewards(done: Done) -> None:
    assert done.metric("filters.advantage/summed") == [2, 2]
    short = [float(s.scores["within_length"]) for g in done.groups for s in g.signals]
    assert 0 < np.mean(short) < 1
    told_apart = 0
    for group in done.groups:
        within = {float(s.scores["within_length"]): float(s.advantage or 0) for s in group.signals}
        if np.ptp(group.raw_rewards_N) == 0 and len(within) > 1:
            told_apart += 1
            assert within[max(within)] > within[min(within)]
    assert told_apart


def prunes(done: Done) -> None:
    assert done.metric("controls.pack/target") == [8, 8] == [len(b.groups) for b in done.batches]
    assert done.metric("rejected/cppo") == [8 * 4.0] * 2
    for group in done.groups:
        sizes = np.abs([float(s.advantage or 0) for s in group.signals])
        assert group.kept_N.sum() == 4
        assert sizes[group.kept_N].min() >= sizes[~group.kept_N].max() - 1e-5


def keeps_the_short(done: Done) -> None:
    assert done.metric("rejected/gfpo") == [4 * 6.0] * 2
    for group in done.groups:
        lengths = np.array([len(r) for r in group.rollouts])
        assert group.kept_N.sum() == 2
        assert lengths[group.kept_N].max() <= lengths[~group.kept_N].min()


def tracks(done: Done) -> None:
    assert {len(g.rollouts) for g in done.groups} == {1}
    tracked, moved = (done.metric(f"filters.single_stream/{k}") for k in ("tracked", "moved"))
    assert 0 < tracked[0] <= tracked[1] and moved[0] == 0 < moved[1]
    assert done.metric("filters.single_stream/passed_over") == [24, 24]
    assert {g.values["tracked"] for g in done.batches[0].groups} == {0.5}


def prefers(done: Done) -> None:
    pairs = done.metric("filters.pair/pairs")[-1]
    assert 2 * pairs == sum(len(b.samples) for b in done.batches) > 0
    for group in (g for g in done.groups if g.rejected is None):
        by_mark = {
            s.advantage: r.reward for r, s in zip(group.rollouts, group.signals, strict=True)
        }
        assert by_mark[1.0] == group.raw_rewards_N.max() > by_mark[-1.0]


def favours_the_rare(done: Done) -> None:
    live = [g for g in done.groups if np.ptp(g.raw_rewards_N) > 0]
    for group in live:
        right = group.raw_rewards_N == 1
        given = np.array([s.advantage for s in group.signals], float)
        np.testing.assert_allclose(given, right / right.mean() - 1, rtol=1e-6)
    assert len({float(g.raw_rewards_N.mean()) for g in live}) > 1


def fine_tunes(done: Done) -> None:
    samples = [s for b in done.batches for s in b.samples]
    assert len(samples) == done.metric("filters.best/kept")[-1] > 0
    assert all(s.rollout.reward == 1 for s in samples)
    texts = [(s.rollout.group_id, s.rollout.text) for s in samples]
    assert len(texts) == len({*texts})
    assert done.run.tokens()["rejected:not_right"] > 0


def teaches_the_dead(done: Done) -> None:
    dead = [g for g in done.groups if np.ptp(g.raw_rewards_N) == 0]
    assert done.metric("filters.advantage/dead")[-1] == len(dead) > 0
    for group in dead:
        expected = 0.1 if group.raw_rewards_N[0] else -0.1
        assert {s.advantage for s in group.signals} == {expected}
    assert len(dead) < len(done.groups)


def keeps_the_varied(done: Done) -> None:
    assert [{int(g.kept_N.sum()) for g in b.groups} for b in done.batches] == [{4}, {8}]
    assert done.batches[0].metrics["rejected/d3s"] == 4 * 4.0
    assert "rejected/d3s" not in done.batches[1].metrics
    for group in done.batches[0].groups:
        every = np.array([float(s.advantage or 0) for s in group.signals])
        best = max(np.var([*np.sort(every)[:i], *np.sort(every)[4 + i :]]) for i in range(5))
        assert np.var(every[group.kept_N]) > best - 1e-6


CASES = {
    "cppo": Case(check=prunes, knobs={"group_size": 8}),
    "d3s": Case(check=keeps_the_varied, knobs={"updates": 1}),
    "dpo": Case(check=prefers, knobs={"group_size": 4}),
    "gdpo": Case(check=sums_two_rewards, prompts=64, knobs={"group_size": 4, "limit": 0.2}),
    "gfpo": Case(check=keeps_the_short, knobs={"group_size": 8, "keep": 2}),
    "maxrl": Case(check=favours_the_rare, knobs={"group_size": 4}),
    "reinforce_pp": Case(check=whitens, knobs={"group_size": 4}, trains=True),
    "rft": Case(check=fine_tunes, knobs={"group_size": 4}),
    "rl_zvp": Case(check=teaches_the_dead, knobs={"group_size": 4}),
    "spo": Case(check=tracks, prompts=8, trains=True),
}
