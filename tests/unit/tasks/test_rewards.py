"""Reward functions and named rewards of a dataset."""

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gfcr.errors import ConfigError, TaskError
from gfcr.handles import TURNS
from gfcr.loop.scoring import Desk, verify_safely
from gfcr.loop.together import verify_all
from gfcr.tasks.base import Asked, Verdict
from gfcr.tasks.codec import CharCodec
from gfcr.tasks.dataset import Dataset
from gfcr.tasks.rewards import Rewards
from gfcr.tasks.verifiers.base import ANSWERS, best
from gfcr.types import Prompt

CODEC = CharCodec(alphabet="abcdefgh +=?0123456789")
FUNCTIONS = """
def trl(prompts, completions, target, **columns):
    assert len(prompts) == len(completions) == len(target) == 1
    return [float(target[0]) if completions[0] == "a" else 0.5]

def short(completion):
    return 1.0 / len(completion) if completion else None

def one(prompt, completion, level, *, bonus=0.0):
    return bonus + level["hard"] * completion.count("a")

async def later(completions, **columns):
    return [len(columns["prompts"][0])]

def none(completions, **columns):
    return [None]

def raises(completions, **columns):
    raise ValueError("no grader")

def two(completions, **columns):
    return [1.0, 2.0]

def odd(completions, **columns):
    return ["good"]

def sometimes_odd(completions, **columns):
    return [1.0 if text else "good" for text in completions]

def blind(prompts, **columns):
    return [1.0]

def placed(completion, /):
    return 1.0

def needs(completions, style, target):
    return [1.0]

def annealed(completions, trainer_state, **columns):
    return [trainer_state.global_step for _ in completions]

def annealed_by_key(completions, **columns):
    return [columns["trainer_state"].global_step for _ in completions]

def ranked(completions, completion_ids, prompts, level, **columns):
    assert len(completions) == len(prompts) == len(level) == len(columns["q"])
    assert [len(ids) for ids in completion_ids] == [len(text) for text in completions]
    lengths = sorted({len(text) for text in completions})
    return [lengths.index(len(text)) for text in completions]

def hangs(completions, **columns):
    import os, time
    while "h" in completions:
        time.sleep(1)
    if "d" in completions:
        os._exit(3)
    lengths = sorted({len(text) for text in completions})
    return [lengths.index(len(text)) for text in completions]

def counted(completions, *, letter, **columns):
    return [float(text.count(letter)) for text in completions]

import functools
part = functools.partial(counted, letter="a")

class Counting:
    def __call__(self, completions, **columns):
        return counted(completions, letter="a")

class Later:
    async def __call__(self, completions, **columns):
        return counted(completions, letter="a")

instance, later_instance = Counting(), Later()

def only_keys(**given):
    return [float(len(text)) for text in given["completions"]]

trl_list = lambda completions, log_metric: log_metric("a", 1) or part(completions)

def messages(prompts, completions, **columns):
    assert prompts[0][-1]["content"] == "3 + 3"
    return [float(len(turns[0]["content"])) for turns in completions]

def compute_score(data_source="", solution_str="", ground_truth="", extra_info=None):
    return {"score": float(solution_str == ground_truth), "acc": 1.0}

def among(solution_str, ground_truth):
    return float(solution_str in ground_truth)

def kinds(completions, *, kind, **columns):
    import decimal, torch, pandas
    made = [float(len(text)) for text in completions]
    whole = torch.tensor(made)
    return {
        "float": made, "bool": [bool(n) for n in made], "tensor": whole, "tensors": list(whole),
        "column": whole[:, None], "nested": [[n] for n in made], "bf16": whole.bfloat16(),
        "decimal": [decimal.Decimal(n) for n in made], "generator": (n for n in made),
        "series": pandas.Series(made), "grad": whole.clone().requires_grad_(),
        "mapping": [{"score": n, "acc": 1.0} for n in made],
    }[kind]

def gold(completion, q, *, target="none"):
    return float(q == "3 + 3" and target == "mine")

def every(completion, **columns):
    return float(columns["target"] == "mine" and columns["q"] == "3 + 3")

def named(completions, **columns):
    return {"reward": 1.0}

def array(completions, **columns):
    import numpy
    return numpy.array([0.25])

def keeps(completion, _loop=[]):
    import asyncio
    async def loop():
        _loop.append(asyncio.get_running_loop())
        return float(_loop[0] is _loop[-1])
    return loop()

class Judge:
    pass
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [{"q": f"{i} + {i}", "target": 2 * i, "level": {"hard": i}} for i in range(40)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    return tmp_path


def dataset(folder: Path, *, verifier: str = "", **changes: Any) -> Dataset:
    values: dict[str, Any] = {
        "path": str(folder / "data.jsonl"),
        "prompt_column": "q",
        "answer_column": "target",
    }
    values["heldout_fraction"] = 0.4
    address = f"{folder}/mine.py:{verifier}" if verifier else "numeric"
    return Dataset(**{**values, "verifier": address, **changes})


def first(task: Dataset) -> Prompt:
    prompts = task.problems(CODEC).train
    return next(prompt for prompt in prompts if prompt.text == "3 + 3")


@pytest.mark.parametrize(
    ("name", "text", "reward"),
    [
        ("trl", "a", 6.0),
        ("trl", "b", 0.5),
        ("one", "aba", 6.0),
        ("later", "", 5.0),
        ("short", "ab", 0.5),
        ("array", "", 0.25),
        ("keeps", "", 1.0),
        ("keeps", "", 1.0),
    ],
)
def test_functions_get_what_they_take(folder: Path, name: str, text: str, reward: float) -> None:
    task = dataset(folder, verifier=name)
    assert verify_safely(task, first(task), text).reward == reward
    assert task.reward_range is None


def test_a_score_beyond_what_a_function_is_said_to_give_is_none(folder: Path) -> None:
    task = dataset(folder, verifier="one", verifier_range=[0, 6])
    assert task.reward_range == (0, 6)
    assert verify_safely(task, first(task), "aba").reward == 6.0
    beyond = dataset(folder, verifier="one", verifier_range=[0, 5.5])
    verdict = verify_safely(beyond, first(beyond), "aba")
    assert verdict.reward is None and "6 is outside dataset.verifier_range=[0, 5.5]" in (
        verdict.error or ""
    )
    for wrong in ({"verifier": "", "verifier_range": [0, 1]}, {"verifier_range": [1, 1]}):
        with pytest.raises(ConfigError, match="verifier_range"):
            dataset(folder, **{"verifier": "one", **wrong})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("raises", "no grader"),
        ("two", "gave [1.0, 2.0] for one completion"),
        ("odd", "gave the reward 'good' (str)"),
        ("named", "gave {'reward': 1.0} for one completion"),
        ("none", None),
    ],
)
def test_what_is_no_score_is_never_zero(folder: Path, name: str, said: str | None) -> None:
    task = dataset(folder, verifier=name)
    verdict = verify_safely(task, first(task), "a")
    assert verdict.reward is None
    assert said in verdict.error if said and verdict.error else verdict.error is said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("blind", "takes no completions"),
        ("Judge", "give a function"),
        ("missing", "cannot be loaded"),
        ("placed", "'completion' by its place only"),
    ],
)
def test_what_cannot_score_is_refused_at_once(folder: Path, name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        dataset(folder, verifier=name)


def test_options_are_arguments_and_others_are_refused(folder: Path) -> None:
    task = dataset(folder, verifier="one", verifier_options={"bonus": 2.5})
    assert verify_safely(task, first(task), "a").reward == 5.5
    with pytest.raises(ConfigError, match="takes no option 'bonsu'"):
        dataset(folder, verifier="one", verifier_options={"bonsu": 1})


@pytest.mark.parametrize("name", ["gold", "every"])
def test_an_option_is_given_in_the_place_of_a_column(folder: Path, name: str) -> None:
    task = dataset(folder, verifier=name, verifier_options={"target": "mine"})
    assert verify_safely(task, first(task), "a").reward == 1.0
    with pytest.raises(ConfigError, match="takes no option 'completions'"):
        dataset(folder, verifier="trl", verifier_options={"completions": 1})


def test_an_argument_that_nothing_gives_is_named_before_the_run(folder: Path) -> None:
    with pytest.raises(TaskError, match="takes 'style', which is no column"):
        dataset(folder, verifier="needs").problems(CODEC)
    for name in ("annealed", "annealed_by_key"):
        with pytest.raises(ConfigError, match="takes 'trainer_state': a reward is a function of"):
            dataset(folder, verifier=name)


def test_functions_are_called_where_a_hang_can_be_ended_unless_told_otherwise(folder: Path) -> None:
    beside = {"in_process": True, "rewards": {"right": "math_verify"}}
    for name in ("later", "trl", "short"):
        assert dataset(folder, verifier=name).slow
        assert not dataset(folder, verifier=name, in_process=True).slow
        with pytest.raises(ConfigError, match="in_process=true is not allowed: MathVerify runs"):
            dataset(folder, verifier=name, **beside)
    assert not dataset(folder).slow


def test_verifiers_that_may_hang_are_asked_where_a_hang_can_be_ended() -> None:
    tiers = [{"verifier": "exact"}, {"verifier": "math_verify"}]
    for given in (
        {"verifier": "math_verify"},
        {"verifier": "cascade", "verifier_options": {"tiers": tiers}},
        {"verifier": "numeric", "rewards": {"right": "math_verify"}},
        {"verifier": "regex", "verifier_options": {"pattern": "(a+)+b"}},
    ):
        assert Dataset(path="q.csv", **given).slow, given


@pytest.mark.whole
def test_an_expression_without_end_costs_its_own_completion(folder: Path) -> None:
    task = dataset(folder, timeout_s=10.0, rewards={"r": "math_verify"})
    desk = Desk(task)
    told = [desk.verify(first(task), text=text) for text in (r"$2^{(10+1)^{10}}$", "$6$", "$5$")]
    try:
        while desk.busy:
            desk.wait()
            desk.deliver()
    finally:
        desk.close()
    assert [pending.result().reward for pending in told] == [None, 1, 0]
    assert "timed out after 10 s" in str(told[0].result().error)


def test_one_call_has_all_completions_in_order_with_their_columns_and_tokens(folder: Path) -> None:
    task = dataset(folder, rewards={"rank": f"{folder}/mine.py:ranked", "right": "numeric"})
    assert task.together and not dataset(folder, verifier="one").together
    prompts = list(task.problems(CODEC).train)[:2]
    asked = [
        Asked(prompt=prompt, text=text, tokens=CODEC.encode(text))
        for prompt in prompts
        for text in ("a", "abc", "abcdef")
    ]
    found = verify_all(task, asked)
    assert [v.scores["rank"] for v in found] == [0, 1, 2] * 2
    assert all(v.scores["right"] == 0 and v.reward == v.scores["rank"] for v in found)


@pytest.mark.slow
def test_a_function_that_hangs_or_dies_costs_the_completion_it_does_so_for(folder: Path) -> None:
    # A process that is started again loads the function within this time, too.
    task = dataset(folder, verifier="hangs", timeout_s=4.0)
    prompt, desk = first(task), Desk(task)
    told = [
        desk.verify(prompt, text=text, place=f"0:{prompt.id}/{slot}")
        for slot, text in enumerate(("a", "h", "abc", "d"))
    ]
    try:
        while desk.busy:
            desk.wait()
            desk.deliver()
    finally:
        desk.close()
    # The rank among those of the call, without those that fail.
    assert [pending.result().reward for pending in told] == [0, None, 1, None]
    assert "timed out after 4 s" in str(told[1].result().error)
    assert "process died" in str(told[3].result().error)


@pytest.mark.parametrize("name", ["part", "instance", "later_instance", "only_keys", "trl_list"])
def test_any_callable_scores_and_is_sent_to_other_processes_by_its_address(
    folder: Path, name: str
) -> None:
    task = pickle.loads(pickle.dumps(dataset(folder, verifier=name)))
    assert verify_safely(task, first(task), "aa").reward == 2.0


def test_conversations_are_messages_in_trl_s_form(folder: Path) -> None:
    task = dataset(folder, verifier="messages")
    turns = ({"role": "user", "content": "3 + 3"},)
    prompt = replace(first(task), meta={TURNS: turns})
    assert verify_safely(task, prompt, "aaa").reward == 3.0


def test_verl_s_signature_is_known(folder: Path) -> None:
    task = dataset(folder, verifier="compute_score")
    assert verify_safely(task, first(task), "6").reward == 1.0
    nested = replace(first(task), answer="", meta={"reward_model": {"ground_truth": "7"}})
    assert verify_safely(task, nested, "7").reward == 1.0


def test_rows_that_ask_the_same_are_all_on_one_side(folder: Path) -> None:
    rows = [{"q": f"{i} + {i}", "target": 2 * i + j} for i in range(40) for j in range(3)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = dataset(folder).problems(CODEC)
    sides = [[prompt.text for prompt in side] for side in (found.train, found.heldout)]
    assert len(sides[0]) + len(sides[1]) == 120 and not set(sides[0]) & set(sides[1])
    assert all(side and side.count(text) == 3 for side in sides for text in side)


def test_of_several_answers_any_will_do_and_verl_s_function_gets_all(folder: Path) -> None:
    prompt = replace(first(dataset(folder)), answer="7", meta={ANSWERS: ("7", "8")})
    for text, right in (("7", 1.0), ("8", 1.0), ("9", 0.0)):
        assert verify_safely(dataset(folder), prompt, text).reward == right
    unknown, wrong = Verdict(reward=None, error="?"), Verdict(reward=0.0)
    assert best([wrong, unknown]) is unknown and best([unknown, Verdict(reward=1.0)]).reward == 1
    nothing = Verdict(reward=float("nan"))  # of a verifier of one's own: it is no 0
    assert best([wrong, nothing]) is nothing is best([nothing, wrong])
    listed = dataset(folder, verifier="among")
    assert [verify_safely(listed, prompt, text).reward for text in ("8", "9")] == [1.0, 0.0]


def test_values_are_converted_as_trl_converts_them(folder: Path) -> None:
    kinds = (
        *("float", "bool", "tensor", "tensors", "column", "decimal", "generator", "series"),
        *("nested", "bf16", "grad", "mapping"),
    )
    for kind in kinds:
        task = dataset(folder, verifier="kinds", verifier_options={"kind": kind})
        asked = [Asked(prompt=first(task), text=text) for text in ("", "a")]
        assert [v.reward for v in verify_all(task, asked)] == [0.0, 1.0], kind


def test_training_sums_rewards_and_held_out_answers_get_the_metric(folder: Path) -> None:
    mine = f"{folder}/mine.py"
    rewards = {"right": "numeric", "short": {"verifier": f"{mine}:short", "weight": 0.5}}
    task = dataset(folder, rewards=rewards)
    assert dataset(folder).measures and not task.measures
    verdict = verify_safely(task, first(task), "6")
    assert verdict.reward == 1.5 and verdict.scores == {"right": 1.0, "short": 1.0}
    assert verify_safely(task, first(task), "").scores == {"right": 0.0}, "None is left out"
    asked = task.problems(CODEC).heldout[0]
    assert verify_safely(task, asked, asked.answer).reward == 1.0
    assert task.reward_range == (0.0, 1.0)


def test_a_reward_that_fails_makes_the_sum_unscorable(folder: Path) -> None:
    rewards = {"right": "numeric", "broken": f"{folder}/mine.py:raises"}
    task = dataset(folder, rewards=rewards)
    verdict = verify_safely(task, first(task), "6")
    assert verdict.reward is None
    assert verdict.error == "ValueError: no grader (dataset.rewards.broken)", "it is told which"
    both = Rewards({"right": "exact", "broken": "exact"}, where="dataset.rewards")
    found = {"right": Verdict(reward=1.0), "broken": Verdict(reward=None, error="no sandbox")}
    assert both._sum(found) == Verdict(reward=None, error="no sandbox")


def test_a_reward_without_weight_is_recorded_and_alone_makes_no_reward(folder: Path) -> None:
    mine = f"{folder}/mine.py"
    watched = {"verifier": f"{mine}:one", "weight": 0.0}
    task = dataset(folder, rewards={"short": f"{mine}:short", "watched": watched})
    verdict = verify_safely(task, first(task), "6")
    assert verdict.reward == 1.0 and verdict.scores.keys() == {"short", "watched"}
    unknown = task.verify(first(task), text="")
    assert unknown.reward is None and unknown.error is None and unknown.scores.keys() == {"watched"}


def test_a_score_that_is_no_number_makes_its_own_sum_unscorable_alone(folder: Path) -> None:
    rewards = {"right": "numeric", "odd": f"{folder}/mine.py:sometimes_odd"}
    task = dataset(folder, rewards=rewards)
    asked = [Asked(prompt=first(task), text=text) for text in ("6", "", "6")]
    found = verify_all(task, asked)
    assert [v.reward for v in found] == [2.0, None, 2.0]
    checked = verify_safely(task, first(task), "")
    said = "dataset.rewards.odd gave the reward 'good' (str)"
    assert checked.reward is None and said in str(checked.error)


@pytest.mark.parametrize(
    ("rewards", "said"),
    [
        ({"right": {"verifier": "numeric", "wieght": 1}}, "weight"),
        ({"right": {"weight": 1.0}}, r"rewards.right.verifier is missing"),
        ({"right": "nummeric"}, "numeric"),
        ({"right": {"verifier": "numeric", "weight": 0.0}}, "all weights are 0"),
    ],
)
def test_rewards_that_are_not_allowed_are_named(
    folder: Path, rewards: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        dataset(folder, rewards=rewards)


def test_data_without_answers_needs_a_function(folder: Path) -> None:
    task = dataset(folder, verifier="later", answer_column="")
    assert first(task).answer == "" and first(task).meta["target"] == 6
    with pytest.raises(TaskError, match="it holds no number"):
        dataset(folder, verifier="", answer_column="").problems(CODEC)
    with pytest.raises(TaskError, match="answer_column='' where no answer"):
        dataset(folder, verifier="later", answer_column="gold").problems(CODEC)


@pytest.mark.parametrize("name", ["dta.jsonl", "nowhere/data.jsonl", "other"])
def test_a_file_that_is_not_there_is_asked_of_nobody(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasets.load_dataset", lambda *_, **__: pytest.fail("was asked"))
    with pytest.raises(TaskError, match="there is no such file or folder") as error:
        dataset(folder, path=f"{folder}/{name}").problems(CODEC)
    assert ("Did you mean 'data.jsonl'?" in str(error.value)) == (name == "dta.jsonl")


def test_a_broken_line_of_data_is_said_to_be_one(folder: Path) -> None:
    (folder / "data.jsonl").write_text('{"q": "1", "target": "1"}\n{"q": "2", "target":\n')
    with pytest.raises(TaskError, match=r"cannot be loaded: JSON parse error: .*\. Give a file"):
        dataset(folder).problems(CODEC)
