"""Parts that do not fit each other are refused before anything starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from gfcr import config as configs
from gfcr import experiment, sweep
from gfcr.errors import GfcrError
from gfcr.experiment import check
from gfcr.experiment.check import uncorrected
from gfcr.experiment.prepared import Prepared, prepare
from gfcr.values import merging
from tests.cases import over
from tests.loops import TRAIN

EXPERIMENT: dict[str, Any] = {
    "study": "t",
    "model": "none",
    "engine": {"name": "fake", "mean_length": 6},
    "trainer": {"name": "dry", "max_steps": 1},
    "tracking": {"name": "local"},
    "prompts": 2,
    "evaluation": {"prompts": 4, "sampling": {"max_tokens": 32}},
    "sampling": {"max_tokens": 32},
}
TRL = {"name": "trl"}
HOT, HEAT = {"name": "grpo", "correction": "truncated"}, {"name": "temperature_schedule"}
ROWS = "nowhere.jsonl"  # refused before it is looked for
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "a chat template's arguments without a model": (
        {"task": {"name": "dataset", "path": ROWS, "chat_template_kwargs": {"think": False}}},
        r"task\.chat_template_kwargs needs a model",
    ),
    "special tokens without a model": (
        {"task": {"name": "dataset", "path": ROWS, "raw_text": True}},
        r"task\.raw_text needs a model",
    ),
    "more tokens than the context": (
        {"sampling": {"max_tokens": 1024}},
        r"sampling\.max_tokens=1024 does not fit: prompt .* at most 1024 .* Give at most 10",
    ),
    "more held-out tokens than the context": (
        {"evaluation": {"sampling": {"max_tokens": 1024}}},
        r"evaluation\.sampling\.max_tokens=1024 does not fit",
    ),
    "a context shorter than the prompts": (
        {"engine": {"max_length": 4}},
        r"max_tokens=32 does not fit: .*engine\.max_length.*Give at most 0, or shorter",
    ),
    "a group of one with a group's baseline": (
        {"strategy": {"name": "grpo", "group_size": 1}},
        r"strategy\.group_size=1 makes groups of 1, and strategy\.filters\.advantage needs 2",
    ),
    "keep above the group": (
        {"strategy": {"name": "pods", "keep": 9, "group_size": 8}},
        r"makes groups of 8, and strategy\.filters\.pods needs 9",
    ),
    "no advantage map": (
        {"strategy": {"name": "grpo", "filters": {"advantage": None}}},
        r"strategy\.filters=\[\] give no advantages",
    ),
    "only filters that are no map": (
        {"strategy": {"name": "dapo", "filters": {"advantage": None}}},
        r"zero_variance.* give no advantages.*group_advantage",
    ),
    "an optimizer that nobody has": (
        {"trainer": {"name": "trl", "optimizer": "adamw_torch_fusde"}},
        r"unknown trainer\.optimizer 'adamw_torch_fusde'\. Did you mean 'adamw_torch_fused'",
    ),
    "an update that fits no memory": (
        {"prompts": 1000, "strategy": {"name": "grpo", "group_size": 100_000}},
        r"prompts=1000 with 100000 rollouts a prompt .* are 100000000 rollouts at once",
    ),
    "an evaluation that fits no memory": (
        {"evaluation": {"prompts": 100_000, "samples": 100}},
        r"evaluation\.prompts=100000 with 100 evaluation\.samples",
    ),
    "an unknown held-out metric": (
        {"metric": "heldout/acuracy"},
        r"Did you mean 'heldout/accuracy'",
    ),
    "two parts that choose the prompts": (
        {"strategy": {"name": "greso", "controls": {"more": {"name": "sec"}}}},
        r"strategy\.controls\.\w+, strategy\.controls\.more each choose the prompts",
    ),
    "two parts that set the temperature": (
        {"strategy": {**HOT, "controls": {"a": HEAT, "b": {"name": "entropy_temperature"}}}},
        r"strategy\.controls\.a, strategy\.controls\.b each set the temperature",
    ),
    "a teacher at another temperature": (
        {"strategy": {**HOT, "name": "opsd", "controls": {"heat": HEAT}}},
        r"filters\.distill: controls\.heat samples at another temperature",
    ),
    "branches at temperatures of their own": (
        {
            "strategy": {
                **HOT,
                "generate": {"name": "temperature_ladder"},
                "controls": {"cut": {"name": "branch_prune"}},
            }
        },
        r"controls\.cut: generate samples siblings at temperatures of their own",
    ),
    "proposals that are tried without the tool": (
        {"strategy": {"name": "absolute_zero", "generate": {"name": "multi_turn"}}},
        r"learnability: generate\S* answers the policy, and a proposal's problem",
    ),
    "a loss that the trainer cannot compute": (
        {"trainer": {**TRL, "beta": 0.1}, "strategy": {"name": "rloo"}},
        r"trainer\.beta=0\.1",
    ),
    "greedy training": (
        {"trainer": TRL, "sampling": {"temperature": 0}},
        r"sampling\.temperature=0 is not allowed in training",
    ),
}


def _experiment(changes: dict[str, Any], *, folder: Path) -> configs.Experiment:
    values = merging.merge({**EXPERIMENT, "folder": str(folder)}, changes)
    return configs.experiment(values, where="t")


@over(("changes", "message"), BAD.values(), ids=BAD.keys())
def test_what_does_not_fit_is_refused_before_the_engine_starts(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    said: list[str] = []
    with pytest.raises(GfcrError, match=message):
        experiment.run(_experiment(changes, folder=tmp_path), say=said.append)
    assert not [line for line in said if "engine" in line]


@over("switch", ["DEEPSPEED", "MEGATRON_LM", "PARALLELISM_CONFIG"])
def test_launches_that_would_compute_another_update_are_refused_before_the_engine_starts(
    switch: str, tmp_path: Path
) -> None:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(f"ACCELERATE_USE_{switch}", "true")
        with pytest.raises(GfcrError, match=f"configured with ACCELERATE_USE_{switch}=true: "):
            experiment.run(_experiment({}, folder=tmp_path), say=said.append)
    assert not [line for line in said if "engine" in line]


GROWS = {"name": "reinforce_ada", "group_size": 2, "keep": 8}


@over(("max_tokens", "strategy"), [(1, "grpo"), (950, "grpo"), (32, GROWS)])
def test_what_just_fits_runs(max_tokens: int, strategy: Any, tmp_path: Path) -> None:
    changes = {"sampling": {"max_tokens": max_tokens}, "strategy": strategy}
    result = experiment.run(_experiment(changes, folder=tmp_path))
    assert result["status"] == "finished" and result["tokens"]["remainder"] == 0


def test_the_longest_of_many_prompts_is_among_those_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_ENCODED", 5)
    asked = {67: "1+" * 500}
    rows = [json.dumps({"prompt": asked.get(n, f"{n}+1"), "answer": "1"}) for n in range(100)]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows))
    task = {"name": "dataset", "path": str(tmp_path / "rows.jsonl"), "heldout_fraction": 0.2}
    with pytest.raises(GfcrError, match=r"does not fit: prompt \w+ has 1000 tokens"):
        prepare(experiment.resolve(_experiment({"task": task}, folder=tmp_path)), model="")
    seen = {n: [*check._looked_at(TRAIN[:n])] for n in (0, 3, 5, 7)}
    assert seen == {0: [], 3: [0, 1, 2], 5: [0, 1, 2, 3, 4], 7: [0, 1, 2, 4, 5]}


def test_a_study_is_checked_whole_before_its_first_trial(tmp_path: Path) -> None:
    arms = {"fits": {"strategy": "grpo"}, "one": {"strategy": {"name": "grpo", "group_size": 1}}}
    values = {**EXPERIMENT, "folder": str(tmp_path), "arms": arms}
    with pytest.raises(GfcrError, match=r"filters\.advantage needs 2"):
        sweep.from_values(values, where="t")
    space = {"strategy.group_size": [4, 1]}
    values = {**EXPERIMENT, "folder": str(tmp_path), "search": {"space": space}}
    with pytest.raises(GfcrError, match=r"filters\.advantage needs 2"):
        sweep.from_values(values, where="t")
    values["search"] = {"space": {"strategy.group_sise": [4, 8]}}
    with pytest.raises(GfcrError, match="group_sise"):
        sweep.from_values(values, where="t")


def test_columns_that_parts_read_are_there_and_no_part_of_what_is_asked(tmp_path: Path) -> None:
    rows = [
        {"prompt": f"{n}+1", "answer": f"{n + 1}", "plan": f"{n},1", "kind": n % 2}
        for n in range(40)
    ]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def config(asked: Any = "sample", **strategy: Any) -> configs.Experiment:
        changes = {"task": {"name": "dataset", "path": str(file)}, "strategy": strategy}
        return _experiment({**changes, "evaluation": {"generate": asked}}, folder=tmp_path)

    def prepared(**given: Any) -> Prepared:
        return prepare(experiment.resolve(config(**given)), model="")

    plain = prepared(name="grpo")
    world = {"name": "trl", "factory": "tests.unit.generate.environments.test_trl:Awaited"}
    episode = {"name": "episode", "environment": world}
    read = {
        "plan": prepared(name="scaf_grpo", generate={"column": "plan"}),
        "kind": prepared(name="sec", controls={"sec": {"by": "kind"}}),
        "answer kind plan prompt": prepared(name="grpo", generate=episode),
        "prompt plan kind answer": prepared(name="grpo", asked=episode),
    }
    assert {*plain.problems.train[0].columns} == {"answer"}
    for names, found in read.items():
        assert found.question.training == plain.question.training, "what is asked is the same"
        for prompt, other in zip(found.problems.train, plain.problems.train, strict=True):
            assert prompt.columns["answer"] == other.answer
            told = {k: v for k, v in rows[int(other.answer) - 1].items() if k in names.split()}
            assert told.items() <= prompt.columns.items() and prompt.id == other.id
        (asked,) = {frozenset(prompt.columns) for prompt in found.problems.heldout}
        assert asked == {"answer", *names.split()}, "an environment is reset there, too"
    result = experiment.run(config(name="sec", controls={"sec": {"by": "kind"}}))
    assert result["status"] == "finished"
    with pytest.raises(GfcrError, match=r"reads 'plna', which is no column\. Did you mean 'plan'"):
        prepared(name="scaf_grpo", generate={"column": "plna"})


def test_what_nothing_corrects_is_warned_of() -> None:
    def told(schedule: Any, **strategy: Any) -> str:
        given = {**EXPERIMENT, "schedule": schedule, "strategy": {"name": "grpo", **strategy}}
        return uncorrected(experiment.resolve(configs.experiment(given, where="x")))

    late = {"name": "async", "staleness": 3}
    assert "schedule.name=lag tokens are of a policy up to 1 update ago" in told("lag")
    assert "up to 3 updates ago" in told(late)
    heeded = told(late, correction="truncated") + told(late, loss={"off_policy": "behaviour"})
    heeded += told(late, correction="own_tokens")
    kept = told(late, correction={"name": "own_tokens", "max_lag": 3})
    assert kept == told(late, correction="rl_zvp") == told(late), "which weigh no ratios"
    in_turn = told("sync") + told({"name": "async", "staleness": 0})
    assert heeded + in_turn + told(late, loss={"estimator": "sft"}) == ""
