"""Cards: every figure of a run made by hand, and of one on the fake engine counted again."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.claims import card
from benchmarks.claims.card import Scale, decided_early, groups_by_kind, histogram
from gfcr import config, experiment
from gfcr.errors import ConfigError
from gfcr.testing import factories as make
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder
from gfcr.types import Cost, FinishReason, Group, RolloutBatch
from tests.launchers import values_of

CLEAN = "rewards/clean"
CAP = 8


def _group(number: int, *, of: list[tuple[float | None, int]], clean: float | None = None) -> Group:
    """A group of prompt `number`: rewards with lengths; `clean` is what each reward should be."""
    notes = {} if clean is None else {CLEAN: clean}
    rollouts = [
        make.rollout(
            i,
            reward=reward,
            length=length,
            of=make.prompt(number),
            notes=notes,
            error="died" if reward is None else None,
            finish=FinishReason.LENGTH if length == CAP else FinishReason.STOP,
        )
        for i, (reward, length) in enumerate(of)
    ]
    return make.group_of(rollouts, id=f"g{number}")


def _recorded(folder: Path, updates: list[list[Group]], **result: Any) -> Path:
    records = RunFolder(folder)
    records.create(RunCard(run_id="r", study="s", arm="grpo", seed=3, spec={}))
    for step, groups in enumerate(updates):
        batch = RolloutBatch(
            step=step,
            version=step,
            samples=(),
            groups=tuple(groups),
            aborted=(),
            cost=Cost(),
            metrics={},
        )
        records.add_rollouts(batch, spell=str)
        records.append(step, metrics={"off_policy/staleness": step / 2, "off_policy/share": 0.25})
    ended = {
        **{"status": "finished", "updates": len(updates), "r_gen": 0.4, "reward_range": [0.0, 1.0]},
        "heldout": {"before": {"accuracy": 0.25}, "after": {"accuracy": 0.625}},
    }
    records.write_result({**ended, **result})
    return folder


def test_every_figure_of_a_run_made_by_hand(tmp_path: Path) -> None:
    right = _group(0, of=[(1.0, 2), (1.0, 4)], clean=1.0)
    wrong = _group(1, of=[(0.0, 6), (0.0, 8)], clean=0.0)
    mixed = _group(1, of=[(1.0, 10), (0.0, 10)], clean=0.0)
    lost = _group(2, of=[(None, 3), (None, 97)])
    folder = _recorded(tmp_path / "run", [[right, wrong], [mixed, lost]])
    found = card.of_run(folder, first=1)
    assert found["start"] == {
        "updates": 1,
        "groups": {"live": 0, "all_right": 0.5, "all_wrong": 0.5, "all_equal": 0, "unscored": 0},
        "success": 0.5,
        "prompts": {
            "never": 0.5,
            **dict.fromkeys(("up_to_25", "up_to_50", "up_to_75", "below_100"), 0),
            "always": 0.5,
        },
        # Of 2, 4, 6 and 8, between the neighbours by their distance.
        "length": {
            "p50": 5,
            "p90": pytest.approx(7.4),
            "p99": pytest.approx(7.94),
            "tail": pytest.approx(7.94 / 5),
            "cut": 0.25,
            "spare": pytest.approx(1 - 2 / 3),  # the right ones are of 2 and 4 tokens
        },
        "decided_early": None,
    }
    assert found["whole"]["groups"] == {
        "live": 0.25,
        "all_right": 0.25,
        "all_wrong": 0.25,
        "all_equal": 0,
        "unscored": 0.25,
    }
    # Prompt 0 is right twice of twice, prompt 1 once of four; nobody scored prompt 2.
    assert found["whole"]["prompts"]["up_to_25"] == found["whole"]["prompts"]["always"] == 0.5
    assert found["whole"]["success"] == 0.5
    assert found["visits"] == {"mean": 4 / 3, "most": 2}
    assert found["verifier"] == {"unscorable": 2 / 8, "false_positive": 1 / 4, "false_negative": 0}
    assert found["staleness"] == {"updates": 0.25, "share": 0.25}
    assert found["generation_share"] == 0.4
    assert found["score"] == {
        **{"before": 0.25, "after": 0.625, "gain": 0.375},
        **{"ceiling": 1, "headroom": 0.75},
    }


def test_what_a_run_did_not_record_is_none(tmp_path: Path) -> None:
    folder = _recorded(tmp_path / "run", [[_group(0, of=[(1.0, 2)])]], r_gen=None)
    found = card.of_run(folder)
    assert found["generation_share"] is None
    assert found["verifier"]["false_positive"] is found["verifier"]["false_negative"] is None


def test_shares_are_of_the_task_s_rewards(tmp_path: Path) -> None:
    groups = [_group(0, of=[(2.0, 1), (2.0, 1)]), _group(1, of=[(-2.0, 1), (-2.0, 1)])]
    groups.append(_group(2, of=[(0.0, 1), (0.0, 1)]))
    folder = _recorded(tmp_path / "run", [groups], reward_range=[-2.0, 2.0])
    found = card.of_run(folder)["start"]
    assert found["groups"]["all_right"] == found["groups"]["all_wrong"] == pytest.approx(1 / 3)
    assert found["groups"]["all_equal"] == pytest.approx(1 / 3)
    assert found["success"] == 0.5 and found["prompts"]["up_to_50"] == pytest.approx(1 / 3)


def test_a_run_in_its_middle_has_no_card(tmp_path: Path) -> None:
    folder = _recorded(tmp_path / "run", [[_group(0, of=[(1.0, 1)])]], status="paused")
    with pytest.raises(ConfigError, match="not finished"):
        card.of_run(folder)
    bare = _recorded(tmp_path / "bare", [])
    with pytest.raises(ConfigError, match="no rollouts"):
        card.of_run(bare)


def test_the_bins_hold_their_upper_limit() -> None:
    found = histogram([0.0, 0.25, 0.26, 0.5, 0.75, 0.99, 1.0, 1.0])
    assert list(found) == ["never", "up_to_25", "up_to_50", "up_to_75", "below_100", "always"]
    assert [8 * share for share in found.values()] == [1, 1, 2, 1, 1, 2]
    assert sum(histogram([]).values()) == 0


def test_groups_whose_rewards_hardly_differ_are_dead() -> None:
    groups = [make.group([0.5, 0.5 + 1e-9]), make.group([0.5, 0.6])]
    found = groups_by_kind(groups, scale=Scale())
    assert found["all_equal"] == found["live"] == 0.5


def _begun(begins: list[tuple[str, float]]) -> Group:
    """Rollouts that begin with two letters each, of these rewards."""
    rollouts = [
        make.rollout(i, reward=reward, tokens_T=np.array([*map(ord, letters), i], np.int32))
        for i, (letters, reward) in enumerate(begins)
    ]
    return make.group_of(rollouts)


def test_what_beginnings_decide_is_their_share_of_the_variance_without_its_chance() -> None:
    all_of_it = _begun([("ab", 1), ("ab", 1), ("cd", 0), ("cd", 0)])
    assert decided_early([all_of_it], tokens=2) == 1
    # By hand: total 1, within the two classes 1/2 each, so that one degree of freedom costs 1/2.
    nothing = _begun([("ab", 1), ("ab", 0), ("cd", 1), ("cd", 0)])
    assert decided_early([nothing], tokens=2) == pytest.approx(-0.5)
    assert decided_early([all_of_it, nothing], tokens=2) == pytest.approx((2 - 1 - 2 * 1 / 4) / 2)
    assert decided_early([all_of_it], tokens=3) is None, "no two begin alike"
    dead = _begun([("ab", 1), ("ab", 1)])
    assert decided_early([dead, all_of_it], tokens=2) == 1


def test_beginnings_that_say_nothing_decide_nothing_on_average() -> None:
    rng = np.random.default_rng(0)
    letters = [f"{a}{b}" for a in "abc" for b in "de"]
    drawn = [
        [(str(rng.choice(letters)), float(rng.random() < 0.4)) for _ in range(8)]
        for _ in range(400)
    ]
    found = decided_early([_begun(each) for each in drawn], tokens=2)
    assert found is not None and abs(found) < 0.05


def test_a_run_on_the_fake_engine_counted_again(tmp_path: Path) -> None:
    """The card reads what the run recorded; this counts the same from the files' columns."""
    run = config.experiment(values_of(tmp_path / "runs"), where="test")
    result = experiment.run(run)
    found = card.of_run(result["folder"], first=2)
    files = sorted(Path(result["folder"], "rollouts").glob("*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    rewards: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        rewards.setdefault((row["update"], row["group_index"]), []).append(row["reward"])
    dead = [own[0] for own in rewards.values() if len(set(own)) == 1]
    counted = found["whole"]["groups"]
    assert counted["all_wrong"] == dead.count(0.0) / len(rewards)
    assert counted["all_right"] == dead.count(1.0) / len(rewards)
    assert counted["live"] == 1 - len(dead) / len(rewards)
    lengths = [row["length"] for row in rows]
    assert found["whole"]["length"]["p99"] == pytest.approx(np.percentile(lengths, 99))
    assert found["whole"]["success"] == pytest.approx(np.mean([row["reward"] for row in rows]))
    assert found["visits"]["mean"] == len(rewards) / len({row["prompt_id"] for row in rows})
    assert found["start"]["updates"] == 2 and found["updates"] == 4
    assert found["score"]["after"] == result["heldout"]["after"]["accuracy"]
    assert json.loads(json.dumps(found)) == found
