"""Judges at work: what was asked, what could be read, and that rewards are made of nothing else.

The demo model cannot judge: its answers are sums, of which some can be read as a score or verdict.
"""

from collections import defaultdict

import numpy as np

from gfcr.control.judges.asked import last_found
from gfcr.control.llm_judge import LlmJudge
from gfcr.control.pairwise_judge import ANY
from gfcr.types import Group, RolloutBatch
from tests.integration.fires.case import Case, Done


def answers(done: Done, batch: RolloutBatch) -> dict[str, list[str]]:
    """What the judge said to each question; '' where it was cut."""
    found: dict[str, list[str]] = defaultdict(list)
    for each in batch.asides:
        assert each.role == "judge"
        said = done.run.codec.decode(each.tokens_T.tolist())
        found[each.prompt.text].append(said if each.complete and each.finish == "stop" else "")
    return found


def counts(done: Done, *, asked: int) -> None:
    """Every question was asked, and those not read are counted by reason."""
    for batch in done.batches:
        own = {k.removeprefix("controls.judge/"): v for k, v in batch.metrics.items()}
        failed = sum(v for k, v in own.items() if k.startswith("failed/"))
        assert own["asked"] == len(batch.asides) == asked and own["read"] + failed == asked
        assert own["read"] > 0 and own["tokens"] == sum(map(len, batch.asides))
    assert done.run.tokens()["aside:judge"] == sum(done.metric("controls.judge/tokens"))


def of_its_own(group: Group, texts: list[str]) -> set[int]:
    """Rollouts whose questions are nobody else's."""
    return {i for i, text in enumerate(texts) if texts.count(text) == 1}


def scores_itself(done: Done) -> None:
    counts(done, asked=4 * 4 * 2)
    part, checked = LlmJudge(), 0
    for batch in done.batches:
        said = answers(done, batch)
        for group in batch.groups:
            texts = [f"{group.prompt.text}{r.text}=" for r in group.rollouts]
            for index in of_its_own(group, texts):
                found = [last_found(part.pattern, text) for text in said[texts[index]]]
                read = [float(f) for f in found if f is not None and float(f) <= 5]
                assert len(found) == 2
                reward = group.rollouts[index].reward
                assert reward is None if not read else abs(reward - np.mean(read) / 5) < 1e-6
                checked += bool(read)
    assert checked


def compares_pairs(done: Done) -> None:
    counts(done, asked=4 * 4 * 3)
    verdicts, checked = {"1": 1.0, "2": 0.0, "0": 0.5, None: None}, 0
    for batch in done.batches:
        said = answers(done, batch)
        for group in batch.groups:
            texts = [r.text for r in group.rollouts]
            if len({*texts}) < len(texts):
                continue  # their questions are the same
            for one, rollout in zip(texts, group.rollouts, strict=True):
                games: list[float] = []
                for two in texts:
                    orders = [f"{group.prompt.text}{a},{b}=" for a, b in ((one, two), (two, one))]
                    pair = [verdicts[last_found(ANY, said[o][0])] for o in orders if one != two]
                    if pair and None not in pair:
                        games.append(pair[0] if pair[0] == 1 - pair[1] else 0.5)
                assert rollout.reward is None if not games else rollout.reward == np.mean(games)
                checked += bool(games)
    assert checked and all(0 <= rate <= 1 for rate in done.metric("controls.judge/flip_rate"))


CASES = {
    "pairwise_grpo": Case(check=compares_pairs, knobs={"group_size": 4}),
    "self_judge": Case(check=scores_itself, knobs={"group_size": 4, "votes": 2}),
}
