"""Strategies on recorded logs, made on the fake engine."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import pyarrow.parquet as pq
import pytest

from gfcr import offline
from gfcr import strategy as strategies
from gfcr.control.length_schedule import LengthSchedule
from gfcr.control.oversample import Oversample
from gfcr.control.repetition_stop import RepetitionStop
from gfcr.control.temperature_schedule import TemperatureSchedule
from gfcr.errors import ConfigError, GfcrError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.generate.sample import Sample
from gfcr.offline.engine import LogStream, LogTask
from gfcr.offline.evaluate import _compared  # pyright: ignore[reportPrivateUsage]
from gfcr.stages import Filter, View
from gfcr.strategy import Strategy
from gfcr.testing.factories import CODEC, CoinTask, pipeline
from gfcr.tracking.base import RunCard
from gfcr.tracking.folder import RunFolder
from gfcr.tracking.rollouts import read_update, write_rollouts
from gfcr.types import Group
from gfcr.values.notes import REWARDS
from tests.cases import over
from tests.commands import gfcr

UPDATES = 6


def record(
    folder: Path,
    strategy: Strategy,
    *,
    prompts: int = 8,
    num_train: int = 64,
    stops: tuple[int, ...] = (),
    **changes: Any,
) -> dict[str, int]:
    """Records a run of the strategy; returns its token ledger."""
    task = CoinTask(num_train=num_train)
    made = pipeline(
        strategy,
        task=task,
        prompts=prompts,
        sink=lambda batch: (write_rollouts(folder / "rollouts", batch=batch), None)[1],
        **changes,
    )
    made.sampling = replace(made.sampling, stop_token_ids=stops)
    spec = {
        "strategy": strategy.spec(),
        "prompts": prompts,
        "seed": 0,
        "sampling": asdict(made.sampling),
    }
    RunFolder(folder).create(RunCard(run_id="r", study="s", arm="a", seed=0, spec=spec))
    for step in range(UPDATES):
        made.sync((), version=step)
        made.next_batch()
    return made.tokens()


def only(log: offline.Log, strategy: Strategy, **changes: Any) -> offline.Selection:
    (selection,) = offline.evaluate(log, strategies={"it": strategy}, **changes).selections
    return selection


def lazy() -> Strategy:
    """Begins twice the groups and trains on the first to end."""
    return replace(strategies.load("grpo"), controls={"oversample": Oversample(factor=2)})


OWN = {
    "grpo": lambda: strategies.load("grpo"),
    "rloo": lambda: strategies.load("rloo"),
    "dapo": lambda: strategies.load("dapo"),
    "pods": lambda: strategies.load("pods"),
    "repo": lambda: strategies.load("repo"),
    "reinforce_ada": lambda: strategies.load("reinforce_ada"),
}


@pytest.mark.whole
@pytest.mark.slow
@over("name", OWN)
def test_a_strategy_makes_of_its_own_log_what_it_made_of_its_run(name: str, tmp_path: Path) -> None:
    # Prompts come back within the run, so that replay has something to recall.
    ledger = record(tmp_path, OWN[name](), num_train=16 if name == "repo" else 128)
    found = only(offline.read_log(tmp_path), OWN[name]())
    assert found.refused is None and found.updates == UPDATES
    assert found.tokens["remainder"] == 0
    assert found.tokens == ledger
    stored = [read_update(f) for f in sorted((tmp_path / "rollouts").glob("*.parquet"))]
    groups = [g for u in stored for g in u.groups if g.rejected is None]
    pairs = [(r, s) for g in groups for r, s in zip(g.rollouts, g.signals, strict=True)]
    trained = [s for _, s in pairs if s.rejected is None]
    assert found.rollouts_trained == len(trained)
    assert found.rollouts_replayed == sum(r.origin == "replay" for r, s in pairs if not s.rejected)
    assert (found.rollouts_replayed > 0) == (name == "repo")


def test_what_a_stop_ended_is_scored_by_its_recorded_text(tmp_path: Path) -> None:
    stops = CODEC.encode("5")
    ledger = record(tmp_path, strategies.load("dapo"), stops=stops)
    files = [*(tmp_path / "rollouts").glob("*.parquet")]
    pq.write_table(pq.read_table(files[0])[:0], tmp_path / "rollouts" / "update-000006.parquet")
    found = only(offline.read_log(tmp_path), strategies.load("dapo"))
    assert found.updates == UPDATES, "the last one has no rollout"
    stored = [read_update(f) for f in files]
    ended = [r for u in stored for g in u.groups for r in g.rollouts if r.tokens_T[-1] in stops]
    assert ended and all(r.text for r in ended if len(r) > 1)
    assert found.refused is None and found.tokens == ledger


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> offline.Log:
    folder = tmp_path_factory.mktemp("log")
    record(folder, strategies.load("grpo", group_size=12), prompts=16)
    return offline.read_log(folder)


LIVE: dict[str, tuple[Any, int]] = {
    "pods": (lambda: strategies.load("pods", group_size=12), 16),
    "small groups": (lambda: strategies.load("rloo", group_size=4), 16),
    "in rounds": (lambda: strategies.load("reinforce_ada", group_size=4, max_rounds=3), 16),
    "first to end": (lazy, 8),
}


@pytest.mark.whole
@over("case", LIVE)
def test_a_superset_log_answers_as_the_run_itself_would(
    case: str, log: offline.Log, tmp_path: Path
) -> None:
    """Same seeds, a policy that does not learn: the run that was not made can be made."""
    make, prompts = LIVE[case]
    assert only(log, make(), prompts=prompts).tokens == record(tmp_path, make(), prompts=prompts)


def test_named_rewards_are_those_of_the_log(log: offline.Log) -> None:
    """Without them GDPO would have one reward, and sum nothing."""
    update = log.updates[0]
    first = update.groups[0].rollouts[0]
    named = replace(first, notes={f"{REWARDS}right": 1.0, "exit": 2.0})
    task = LogTask()
    task.begin(replace(update, groups=(replace(update.groups[0], rollouts=(named,)),)))
    assert task.verify(first.prompt, text=first.text).scores == {"right": 1.0}


def test_equal_answers_have_each_the_reward_that_was_recorded(log: offline.Log) -> None:
    update, task = log.updates[0], LogTask()
    group = update.groups[0]
    judged = tuple(replace(group.rollouts[0], reward=reward) for reward in (1.0, 0.0, 0.25))
    task.begin(replace(update, groups=(replace(group, rollouts=judged),)))
    asked = [task.verify(group.prompt, text=judged[0].text).reward for _ in judged]
    assert asked == [1.0, 0.0, 0.25]


@pytest.mark.slow
def test_fewer_samples_are_the_first_ones(log: offline.Log) -> None:
    found = only(log, strategies.load("grpo", group_size=4))
    first = [r for u in log.updates for g in u.groups for r in g.rollouts[:4]]
    assert found.rollouts_generated == len(first) == 4 * 16 * UPDATES
    assert found.tokens["generated"] == sum(len(r) for r in first)


def _lifted(log: offline.Log, *, by: float, times: float = 1.0) -> offline.Log:
    def lifted(group: Group) -> Group:
        rollouts = [replace(r, reward=r.reward * times + by) for r in group.rollouts]
        return replace(group, rollouts=tuple(rollouts))

    updates = [replace(u, groups=tuple(map(lifted, u.groups))) for u in log.updates]
    return replace(log, updates=tuple(updates))


def test_strategies_are_paired(log: offline.Log) -> None:
    gated = {"filters": {"gate": {"name": "zero_variance"}}}
    report = offline.evaluate(
        _lifted(log, by=0.7),  # equal rewards that are not their own mean to the last bit
        strategies={
            "all": strategies.load("grpo", group_size=6),
            "same": strategies.load("dr_grpo", group_size=6),
            "alive": strategies.load("grpo", group_size=6, **gated),
        },
    )
    every, same, alive = report.selections
    # Dead groups have no signal: a gate in front costs none, and trains on fewer.
    assert every.signal_rate == same.signal_rate == alive.signal_rate > 0
    assert alive.rollouts_trained < every.rollouts_trained
    assert every.versus is None and same.versus is not None
    assert same.versus.comparison.difference.value == 0 and same.versus.p_adjusted == 1
    # Of long answers there is less than one a thousand tokens, which makes a rate no share.
    rates = {"all": [0.1, 0.2], "same": [0.9, 0.1]}
    found = {n: (None, [SimpleNamespace(signal_per_1k=x) for x in r], {}) for n, r in rates.items()}
    (_, long) = _compared([every, same], found)  # type: ignore[arg-type]
    assert long.versus is not None and long.versus.comparison.difference.high > 1
    # Asked twice of the same objects, as in a notebook: what they remember is of one log.
    repo = strategies.load("repo", group_size=6)
    one, again = (only(log, repo) for _ in range(2))
    assert again.refused is None and one.tokens == again.tokens


def test_refilling_takes_the_spare_groups_in_order(log: offline.Log) -> None:
    found = only(log, strategies.load("dapo", group_size=12), prompts=4)
    assert found.refused is None and found.groups_accepted == 4 * UPDATES
    assert found.groups_begun > found.groups_accepted
    assert found.rejected["zero_variance"] % 12 == 0


REFUSED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "tree": (lambda: strategies.load("treerl"), ("generate", "EntropyTree")),
    "halting": (
        lambda: replace(strategies.load("grpo"), controls={"stop": RepetitionStop()}),
        ("controls.stop", "truncated"),
    ),
    "group": (lambda: strategies.load("grpo", group_size=13), ("group_size=13", "12")),
    "refill": (
        lambda: strategies.load("dapo", group_size=2),
        ("update 1: controls.refill", "16 prompts"),
    ),
    "more": (
        lambda: strategies.load("reinforce_ada", group_size=8),
        ("update 1: controls.reinforce_ada", "rollout 13", "12 are recorded"),
    ),
    "resume": (lambda: strategies.load("april", group_size=4), ("replays",)),
    "aside": (lambda: strategies.load("vineppo"), ("controls.step_values", "on the side")),
    "levels": (lambda: strategies.load("rlve"), ("no levels of difficulty",)),
    "no map": (lambda: replace(strategies.load("grpo"), filters={}), ("no filter gave rollout",)),
}


@over("case", REFUSED)
def test_what_the_log_cannot_answer_is_refused_by_part(case: str, log: offline.Log) -> None:
    make, words = REFUSED[case]
    found = only(log, make(), prompts=8 if case == "resume" else None)
    assert found.refused is not None and not found.updates
    for word in words:
        assert word in found.refused


@final
@dataclass(kw_only=True)
class Light(Filter):
    """Gives the first of a group no weight."""

    def apply(self, group: Group, *, view: View) -> Group:
        first, *others = group.signals
        return group.with_signals([replace(first, weight=0.0), *others])


def test_rollouts_without_weight_are_counted_as_the_ledger_counts_them(log: offline.Log) -> None:
    plain = strategies.load("grpo", group_size=6)
    found = only(log, replace(plain, filters={**plain.filters, "light": Light()}))
    assert found.rejected == {"masked": found.groups_begun}
    assert "rejected:masked" in found.tokens


@final
@dataclass(kw_only=True)
class Short(Filter):
    """Keeps the shorter half of a group."""

    def apply(self, group: Group, *, view: View) -> Group:
        order = np.argsort([len(r) for r in group.rollouts], kind="stable")
        return group.reject_rollouts(order[len(order) // 2 :].tolist(), reason="long")


def test_selection_bias_is_found_where_it_is_and_only_there(log: offline.Log) -> None:
    plain = strategies.load("grpo", group_size=8)
    short = replace(plain, filters={"short": Short(), **plain.filters})
    none, length = only(log, plain).bias, only(log, short).bias
    assert none["length"].difference.value == 0 and none["length"].p_value == 1
    assert length["length"].effect < -0.3 and length["length"].p_value < 0.01
    assert length["length"].trained < length["length"].generated
    # Half of every group is kept: prompts keep their shares, and so does difficulty.
    assert length["difficulty"].difference.value == pytest.approx(0)


def test_gates_on_reward_prefer_middling_prompts(log: offline.Log) -> None:
    gated = strategies.load("grpo", filters={"gate": {"name": "zero_variance"}})
    bias = only(log, gated).bias["difficulty"]
    # Rates of 0 and 1 are always dead: of 0, 1/4, 1/2, 3/4, 1 those in the middle remain.
    assert bias.trained == pytest.approx(0.5, abs=0.1)


def test_the_gradient_proxies_are_their_formulas(log: offline.Log) -> None:
    found = only(log, strategies.load("grpo", group_size=6))
    sizes = []
    for update in log.updates:
        made = [np.array([r.reward for r in g.rollouts[:6]], float) for g in update.groups]
        unit = [(r - r.mean()) / (r.std(ddof=1) + 1e-4) for r in made]
        sizes.append(np.abs(np.concatenate(unit)))
    assert found.mean_squared_advantage == pytest.approx(
        np.mean([(a**2).mean() for a in sizes]), rel=1e-4
    )
    assert found.effective_size == pytest.approx(
        np.mean([a.sum() ** 2 / (a**2).sum() for a in sizes]), rel=1e-4
    )
    equal, gate = _lifted(log, by=1.0, times=0.0), {"gate": {"name": "zero_variance"}}
    none = only(equal, strategies.load("grpo", group_size=6, filters=gate))
    assert none.updates == UPDATES and not none.rollouts_trained and not none.bias
    dead = only(equal, strategies.load("grpo", group_size=6))
    assert dead.rollouts_trained == found.rollouts_trained
    assert dead.signal_rate == dead.signal_per_1k == dead.effective_size == 0


@pytest.mark.whole
def test_a_log_of_dependent_rollouts_is_no_log(tmp_path: Path) -> None:
    record(tmp_path / "tree", strategies.load("treerl"))
    with pytest.raises(ConfigError, match="entropy_tree"):
        offline.read_log(tmp_path / "tree")
    with pytest.raises(ConfigError, match="no complete rollouts"):
        folder = tmp_path / "empty"
        strategy = Strategy(
            name="e", generate=Sample(), filters={"advantage": GroupAdvantage()}, group_size=2
        )
        record(folder, strategy)
        for file in (folder / "rollouts").glob("*.parquet"):
            file.unlink()
        offline.read_log(folder)


SHAPED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "halted": (
        lambda: replace(
            strategies.load("grpo"),
            controls={"stop": RepetitionStop(min_tokens=4, max_period=4, min_repeats=2)},
        ),
        {"script": lambda request: [7] * 40},
        r"rollout .* was halted in decoding \(controls\.stop",
    ),
    # The last of a group, which are the long ones, are nowhere in it.
    "aborted": (
        lambda: strategies.load("darts", group_size=6),
        {},
        r"rollout .* was aborted in decoding \(controls\.darts: tail\)",
    ),
    "capped": (
        lambda: replace(
            strategies.load("grpo"), controls={"cap": LengthSchedule(start=0.1, end=0.1)}
        ),
        {},
        r"rollout .* was cut at 4 tokens, and sampling\.max_tokens=40",
    ),
    "heated": (
        lambda: replace(
            strategies.load("grpo", correction="truncated"),
            controls={"heat": TemperatureSchedule(start=1.5, end=1.5)},
        ),
        {},
        r"rollout .* was sampled at temperature 1\.5, and sampling\.temperature=1",
    ),
}


@over("how", SHAPED)
def test_a_log_of_rollouts_that_a_control_has_shaped_is_no_log(how: str, tmp_path: Path) -> None:
    make, changes, words = SHAPED[how]
    record(tmp_path, make(), **changes)
    with pytest.raises(ConfigError, match=words):
        offline.read_log(tmp_path)


def test_the_command_answers_and_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    record(tmp_path, strategies.load("grpo", group_size=8), prompts=8)
    asked = ("grpo group_size=4", "dr_grpo group_size=4", "treerl")
    command = ("offline", tmp_path, *(word for each in asked for word in ("--strategy", each)))
    done = gfcr(*command, "--json")
    assert done.returncode == 1, done.stderr
    data = json.loads(done.stdout)
    first, _, tree = data["strategies"]
    assert first["tokens"]["remainder"] == 0 and first["refused"] is None
    assert "generate" in tree["refused"] and tree["signal_rate"] is None
    shown = gfcr(*command)
    assert "not answered treerl" in shown.stdout
    (row,) = [line for line in shown.stdout.splitlines() if "%" in line and "dr_grpo" in line]
    assert "48/48" in row and "+0.00  1.000" in row and "100%" in row


def test_how_many_training_prompts_there_were_no_log_tells() -> None:
    with pytest.raises(GfcrError, match="number of training prompts is not in the log"):
        LogStream(askers=()).num_prompts  # noqa: B018 # it is asked
