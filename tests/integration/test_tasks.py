"""Tasks on the real libraries behind them: datasets, reasoning-gym, math-verify. About 20 s."""

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from gfcr.errors import ConfigError, TaskError
from gfcr.loop.pool import ProcessPool
from gfcr.tasks.base import Task, Verdict
from gfcr.tasks.codec import CharCodec
from gfcr.tasks.dataset import Dataset
from gfcr.tasks.demos.reasoning_gym import ALPHABET
from gfcr.tasks.reasoning_gym import ReasoningGym
from gfcr.types import Prompt
from tests.cases import over

CODEC = CharCodec(alphabet=ALPHABET)


def table(num: int = 40) -> list[dict[str, Any]]:
    return [{"question": f"{i} + {i}", "target": 2 * i} for i in range(num)]


def jsonl(folder: Path, rows: list[dict[str, Any]], *, name: str = "data.jsonl") -> str:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def dataset(path: str, **changes: Any) -> Dataset:
    names = {"prompt_column": "question", "answer_column": "target", "verifier": "numeric"}
    return Dataset(path=path, **{**names, **changes})


def verify(task: Task, prompt: Prompt, text: str) -> Verdict:
    return task.verify(prompt, text=text)


def in_process(task: Task, prompt: Prompt, text: str, *, timeout_s: float = 60.0) -> Any:
    """The verdict from a pool, or the error the pool reports."""
    pool = ProcessPool(num_processes=1)
    pool.submit(verify, task, prompt, text, timeout_s=timeout_s)
    pool.wait(120.0)
    (done,) = pool.poll()
    pool.close()
    return done.error or done.result


def save(folder: Path, *, form: str) -> str:
    import datasets

    if form == "jsonl":
        return jsonl(folder, table(), name="data [1].jsonl")
    made = datasets.Dataset.from_list(table())
    path = str(folder / (f"data.{form}" if form == "files" else f"data [1].{form}"))
    if form == "csv":
        made.to_csv(path)
    elif form == "parquet":
        made.to_parquet(path)
    elif form == "folder":
        made.save_to_disk(path)
    elif form == "files":
        Path(path).mkdir()
        made.to_parquet(f"{path}/part-0.parquet")
        return f"~/data.{form}"
    else:
        datasets.DatasetDict({"train": made}).save_to_disk(path)
    return path


@over("form", ["jsonl", "csv", "parquet", "folder", "splits", "files"])
def test_every_form_of_a_dataset_gives_the_same_disjoint_splits(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    problems = dataset(save(tmp_path, form=form), heldout_fraction=0.25).problems(CODEC)
    train = {p.text: p.answer for p in problems.train}
    heldout = {p.text: p.answer for p in problems.heldout}
    assert train | heldout == {r["question"]: str(r["target"]) for r in table()}
    assert train and heldout and not train.keys() & heldout.keys()
    assert all(p.tokens == CODEC.prompt(p.text) for p in problems.train)


def test_a_named_heldout_split_is_never_trained_on(tmp_path: Path) -> None:
    import datasets

    splits = {"train": table(30), "test": table(10)}
    folder = str(tmp_path / "saved")
    made = {name: datasets.Dataset.from_list(rows) for name, rows in splits.items()}
    datasets.DatasetDict(made).save_to_disk(folder)
    problems = dataset(folder, heldout_split="test").problems(CODEC)
    assert len(problems.heldout) == 10
    assert len(problems.train) == 20
    with pytest.raises(TaskError, match=r"no split 'tests'. Did you mean 'test'"):
        dataset(folder, heldout_split="tests").problems(CODEC)


def test_errors_say_what_to_change(tmp_path: Path) -> None:
    good = jsonl(tmp_path, table())
    cases = {
        "there is no such file": dataset(str(tmp_path / "none.jsonl")),
        "Columns: question, target": dataset(good, answer_column="answer"),
        "it has no rows|cannot be loaded": dataset(jsonl(tmp_path, [], name="empty.jsonl")),
        "files of type '.txt'": dataset(jsonl(tmp_path, table(), name="data.txt")),
        "holds no number": dataset(
            jsonl(tmp_path, [{"question": "a", "target": "four"}], name="words.jsonl")
        ),
        "none is left to train on": dataset(good, heldout_split="train"),
    }
    for said, task in cases.items():
        with pytest.raises(TaskError, match=said):
            task.problems(CODEC)


def test_a_dataset_task_is_slow_when_its_verifier_is(tmp_path: Path) -> None:
    path = jsonl(tmp_path, table())
    task = dataset(path, verifier="math_verify")
    assert (dataset(path).slow, task.slow) == (False, True)
    assert pickle.loads(pickle.dumps(task)) == task
    prompt = Prompt(id="p", tokens=(), text="", answer=r"\frac{1}{2}")
    assert in_process(task, prompt, "so it is $0.5$") == Verdict(reward=1.0)


def test_a_pattern_that_never_ends_is_killed_and_unscorable(tmp_path: Path) -> None:
    options = {"pattern": r"^(a+)+$"}
    task = dataset(jsonl(tmp_path, table()), verifier="regex", verifier_options=options)
    prompt = Prompt(id="p", tokens=(), text="", answer="a")
    said = in_process(task, prompt, "a" * 40 + "b", timeout_s=0.5)
    assert "timed out after 0.5 s" in said


def gym(**changes: Any) -> ReasoningGym:
    return ReasoningGym(**{"num_train": 64, "num_heldout": 16, **changes})


@over("name", ["chain_sum", "spell_backward", "prime_factorization"])
def test_right_answers_of_a_gym_dataset_score_one(name: str) -> None:
    task = gym(dataset=name, marker="#")
    problems = task.problems(CharCodec(alphabet=ALPHABET + "\u00d7"))
    assert not {p.text for p in problems.train} & {p.text for p in problems.heldout}
    for prompt in problems.train[:20]:
        assert task.verify(prompt, text=f"think # {prompt.answer}").reward == 1.0
        tagged = f"think <answer> {prompt.answer} </answer> Done."
        assert gym(dataset=name, marker="<answer>").verify(prompt, text=tagged).reward == 1.0
        for wrong in ("think", "# seven"):  # the last scorer raises for what is no number
            verdict = task.verify(prompt, text=wrong)
            assert verdict.reward is not None and verdict.reward < 1.0


def test_gym_splits_are_disjoint_across_seeds_and_the_same_for_one() -> None:
    narrow = {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 1}
    made = [gym(config=narrow, seed=s).problems(CODEC) for s in (0, 1, 0)]
    assert made[0] == made[2] != made[1]
    train = {p.text for m in made for p in m.train}
    assert not train & {p.text for m in made for p in m.heldout}


def test_gym_verdicts_survive_the_process_pool() -> None:
    task = gym()
    prompt = task.problems(CODEC).train[0]
    assert in_process(task, prompt, prompt.answer) == Verdict(reward=1.0)


def test_gym_errors_say_what_is_allowed() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'chain_sum'"):
        gym(dataset="chain_sums").problems(CODEC)
    with pytest.raises(ConfigError, match="Did you mean 'max_terms'"):
        gym(config={"max_term": 3}).problems(CODEC)
    with pytest.raises(ConfigError, match="is refused by dataset 'chain_sum'"):
        gym(config={"min_terms": 5, "max_terms": 3}).problems(CODEC)
    with pytest.raises(TaskError, match="num_train=500"):
        tiny = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1}
        gym(num_train=500, config=tiny).problems(CODEC)


def test_a_model_without_the_characters_is_refused(tmp_path: Path) -> None:
    digits = CharCodec(alphabet="0123456789+ ")
    assert dataset(jsonl(tmp_path, table())).problems(digits).train
    with pytest.raises(TaskError, match="no token for"):
        gym().problems(digits)
    odd = jsonl(tmp_path, [*table(), {"question": "1 \u00d7 1", "target": 1}], name="odd.jsonl")
    with pytest.raises(TaskError, match="\u00d7"):
        dataset(odd).problems(digits)
