"""The held-out question is one for all arms, whatever they train with, and no answer vanishes."""

from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import pytest

from gfcr import config as configs
from gfcr import experiment, sweep
from gfcr.config import Evaluation
from gfcr.errors import ConfigError, GfcrError, TaskError
from gfcr.experiment.heldout import Question, digest, question
from gfcr.tasks.base import Problems
from gfcr.testing import factories as make
from gfcr.tracking.curve import floored
from gfcr.tracking.folder import RunFolder
from gfcr.types import FinishReason, Prompt, Sampling
from tests.cases import over
from tests.launchers import values_of


def prompts(first: int, num: int) -> tuple[Prompt, ...]:
    return tuple(
        make.prompt(i, text=f"{i}+1=", answer=str(i + 1)) for i in range(first, first + num)
    )


def ran(folder: Path, **changes: Any) -> dict[str, Any]:
    values = values_of(folder, **changes)
    return experiment.run(configs.experiment(values, where="t"))


def test_an_arm_s_sampling_leaves_its_held_out_answers_alone(tmp_path: Path) -> None:
    """The dry trainer changes no weights: all arms answer alike, before and after."""
    plain = ran(tmp_path, arm="plain")["heldout"]
    for key, value in {
        **{"top_k": 1, "top_p": 0.5, "min_p": 0.4},
        **{"temperature": 0.2, "max_tokens": 2},
    }.items():
        assert ran(tmp_path, arm=key, sampling={key: value})["heldout"] == plain, key
    group = ran(tmp_path, arm="group", prompts=1, strategy={"name": "grpo", "group_size": 5})
    assert group["heldout"] == plain
    other = ran(tmp_path, arm="asked", evaluation={"prompts": 4, "sampling": {"max_tokens": 2}})
    assert other["heldout"]["after"] != plain["after"]
    assert other["heldout"]["after"]["cut"] > plain["after"]["cut"]


def test_the_default_follows_no_training_and_longer_training_must_say_so() -> None:
    made = configs.experiment({"sampling": {"max_tokens": 9, "top_k": 3}}, where="t")
    assert made.evaluation.sampling == Sampling()
    with pytest.raises(ConfigError, match=r"t: evaluation\.sampling\.max_tokens is missing.*4096"):
        configs.experiment({"sampling": {"max_tokens": 4096}}, where="t")
    own = {"sampling": {"max_tokens": 4096}, "evaluation": {"sampling": {"max_tokens": 7}}}
    assert configs.experiment(own, where="t").evaluation.sampling.max_tokens == 7
    for ends in ({"stop": ["a"]}, {"stop_token_ids": [3]}):
        (key,) = ends
        with pytest.raises(ConfigError, match=rf"evaluation\.sampling\.{key} is missing"):
            configs.experiment({"sampling": ends}, where="t")
        both = {"sampling": ends, "evaluation": {"sampling": {key: []}}}
        assert not getattr(configs.experiment(both, where="t").evaluation.sampling, key)


@over("key", ["temperature", "top_k", "max_tokens"])
def test_a_key_of_sampling_belongs_below_evaluation_sampling(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"give evaluation\.sampling\.{key}"):
        configs.experiment({"evaluation": {key: 1}}, where="t")


def test_the_generate_part_is_recorded_with_every_option(tmp_path: Path) -> None:
    asked = {"prompts": 4, "generate": {"name": "multi_turn", "max_turns": 3}}
    made = configs.experiment(values_of(tmp_path, evaluation=asked), where="t")
    spec = experiment.resolve(made).spec["evaluation"]["generate"]
    assert (spec["name"], spec["max_turns"]) == ("multi_turn", 3)
    assert spec["tool"] == {"name": "calculator"}
    again = configs.experiment(configs.as_dict(made), where="t")
    assert experiment.resolve(again).run_id == experiment.resolve(made).run_id


ASKED = {
    "train is held out": (prompts(0, 8), prompts(0, 8), "8 of 8"),
    "one in common": (prompts(3, 8), prompts(0, 4), "1 of 4 held-out prompts are training"),
    "other ids": (
        tuple(replace(p, id=f"t{p.id}") for p in prompts(3, 8)),
        prompts(0, 4),
        "token for token",
    ),
    "too few": (prompts(9, 8), prompts(0, 3), "evaluation.prompts=4 and the task has 3"),
    "none": (prompts(9, 8), (), "has 0 held-out"),
    "one in common that is not asked": (prompts(6, 8), prompts(0, 8), "2 of 8 held-out prompts"),
    "one id": (prompts(9, 8), (*prompts(0, 3), *prompts(0, 1)), "3 different ids"),
}


@over("case", ASKED)
def test_splits_that_measure_nothing_are_refused(case: str) -> None:
    train, heldout, words = ASKED[case]
    with pytest.raises(TaskError, match=words):
        question(Problems(train=train, heldout=heldout), evaluation=Evaluation(prompts=4))


def test_the_digest_is_of_what_is_asked_and_what_is_right() -> None:
    asked = prompts(0, 3)
    changes: list[dict[str, Any]] = [{"answer": "9"}, {"tokens": (5,)}, {"id": "x"}]
    changes.append({"meta": {"unit": "m"}})
    others = [(replace(asked[0], **change), *asked[1:]) for change in changes]
    assert len({digest(o) for o in [asked, asked[::-1], asked[:2], *others]}) == 7
    odd = {"seen": object()}
    assert digest([replace(asked[0], meta=odd)]) == digest(
        [replace(asked[0], meta={"seen": object()})]
    )


def test_answers_nobody_could_score_are_counted_by_prompt() -> None:
    asked = Question(prompts=prompts(0, 3), samples=2)
    scored = [[1.0, None], [None, None], [0.0, 1.0]]
    groups = [
        make.group(s, of=p, id=p.id, prompt=p) for s, p in zip(scored, asked.prompts, strict=True)
    ]
    found = asked.summarise(groups)
    assert found.per_prompt == {"p0": 1.0, "p2": 0.5}
    assert found.unscorable == {"p0": 1, "p1": 2}
    assert (found.n, found.accuracy) == (3, pytest.approx(2 / 3))
    # A group that is missing, or short, was not scored either.
    assert asked.summarise(groups[2:]).unscorable == {"p0": 2, "p1": 2}
    with pytest.raises(GfcrError, match="gave 3 answers to held-out prompt 'p0'"):
        asked.summarise([make.group([1.0] * 3, of=asked.prompts[0])])


def test_an_episode_whose_turns_were_cut_is_one_answer_that_was() -> None:
    length, stop = FinishReason.LENGTH, FinishReason.STOP
    ends = [(0, length), (0, length), (0, stop), (1, stop), (1, stop)]
    turns = [make.rollout(i, finish=f, notes={"episode": e}) for i, (e, f) in enumerate(ends)]
    lone = make.group_of([make.rollout(finish=length, of=prompts(1, 2)[0])])
    found = Question(prompts=prompts(0, 2), samples=2).summarise([make.group_of(turns), lone])
    assert (found.n, found.cut) == (3, 2)


def test_a_curve_that_decides_counts_them_as_the_lowest_reward() -> None:
    result = {
        "heldout": {"asked": {"prompts": 4, "samples": 2}},
        "curve": [[0, 0, 0.0, 0.5], [1, 9, 1.0, 1.0], [2, 9, 1.0, -0.5]],
        "unscorable": [0, 4, 2],
    }
    assert [point[3] for point in floored(result)] == [0.5, 0.5, -0.5]
    seen = {"before": {"per_prompt": {"p": 0.5}}, "after": {"per_prompt": {"p": -1.0, "q": 1.0}}}
    below = {**result, "heldout": {**result["heldout"], **seen}}
    assert [point[3] for point in floored(below)] == [0.5, 0.0, -0.625]
    assert [point[3] for point in floored(below, least=-3.0)] == [0.5, -1.0, -1.125]
    declared = {**result, "reward_range": [-1.0, 1.0]}
    assert [point[3] for point in floored(declared)] == [0.5, 0.0, -0.625]
    nothing = {**result, "curve": [[0, 0, 0.0, nan]], "unscorable": [8]}
    assert [point[3] for point in floored(nothing)] == [0.0]
    assert [point[3] for point in floored({**nothing, "reward_range": [-1.0, None]})] == [-1.0]


SAME = {
    "sampling of answers": (
        {"evaluation": {"sampling": {"top_k": 1}}},
        "evaluation.sampling.top_k=1",
    ),
    "part": ({"evaluation": {"generate": "multi_turn"}}, "evaluation.generate.name=multi_turn"),
    "answers a prompt": ({"evaluation": {"samples": 2}}, "evaluation.samples=2"),
    "a task's value": ({"task": {"num_heldout": 9}}, "task.num_heldout=9"),
    "a task of training": ({"task": {"num_train": 9}}, "task.num_train=9"),
    "model": ({"model": "other"}, r"model=other.*compares: \[model\]"),
    "engine": (
        {"engine": {"max_length": 99}},
        r"engine.max_length=99.*compares: \[engine.max_length\]",
    ),
    "store": ({"tracking": {"name": "mlflow"}}, "tracking.name=mlflow"),
}


@over("case", SAME)
def test_arms_differ_in_how_they_train_and_in_nothing_else(case: str, tmp_path: Path) -> None:
    changes, words = SAME[case]
    values = values_of(tmp_path, arms={"a": {}, "b": changes})
    with pytest.raises(ConfigError, match=rf"arms\.b has {words}"):
        sweep.from_values(values, where="t")
    own = {"sampling": {"top_k": 1}, "prompts": 1, "trainer": {"name": "dry", "max_steps": 4}}
    assert sweep.from_values({**values, "arms": {"a": {}, "b": own}}, where="t").arms


def test_a_study_may_say_that_it_compares_models_or_engines(tmp_path: Path) -> None:
    arms = {"a": {}, "b": {"model": "other", "engine": {"max_length": 99}}}
    values = values_of(tmp_path, arms=arms, compares=["model", "engine.max_length"])
    assert list(sweep.from_values(values, where="t").arms) == ["a", "b"]
    with pytest.raises(ConfigError, match=r"engine\.max_length=99"):
        sweep.from_values({**values, "compares": ["model", "engine.max_len"]}, where="t")
    with pytest.raises(ConfigError, match="'evaluation' is not allowed"):
        sweep.from_values({**values, "compares": ["evaluation"]}, where="t")


@pytest.mark.whole
def test_a_task_of_one_s_own_is_part_of_the_question(tmp_path: Path) -> None:
    """The file may be edited between two arms: same name, prompts and answers, other verdicts."""
    file = tmp_path / "mine.py"
    text = Path(make.__file__).read_text()

    def code() -> str:
        file.write_text(text)
        task = {"name": f"{file}:CoinTask"}
        evaluation = {"prompts": 4}
        result = ran(tmp_path, task=task, evaluation=evaluation, arm=f"a{len(text)}")
        return RunFolder(result["folder"]).card().tags["gfcr.digest.asking"]

    first = code()
    text += "\n# mended\n"
    assert first and code() != first
