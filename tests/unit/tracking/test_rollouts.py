from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import CheckpointError
from gfcr.tracking.looked_at import look_at
from gfcr.tracking.parquet import files, read, write_corrections
from gfcr.tracking.rollouts import read_rollouts, read_update, write_rollouts
from gfcr.types import (
    Cost,
    FinishReason,
    Group,
    Prompt,
    Rollout,
    RolloutBatch,
    Sample,
    Signal,
    Span,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
numbers = st.floats(allow_nan=False, width=32)
finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
counts = st.integers(0, 2**31 - 1)
values = st.dictionaries(texts, numbers, max_size=2)
notes = st.dictionaries(texts, numbers | st.text(max_size=8), max_size=2)
spans = st.builds(Span, request_id=texts, start=counts, stop=counts)
prompts = st.builds(
    Prompt,
    id=texts,
    tokens=st.lists(counts, max_size=4).map(tuple),
    text=texts,
    answer=texts,
    meta=st.dictionaries(texts, st.one_of(st.integers(), texts, st.booleans()), max_size=2),
)


def same(a, b):
    """Equality through records and arrays, dtypes included."""
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if hasattr(a, "__dataclass_fields__"):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@st.composite
def rollouts(draw, prompt, group_id="g"):
    length = draw(st.integers(0, 5))

    def array(values, dtype):
        return np.array(draw(st.lists(values, min_size=length, max_size=length)), dtype)

    return Rollout(
        id=draw(texts),
        group_id=group_id,
        prompt=prompt,
        tokens_T=array(counts, np.int32),
        logprobs_T=array(numbers, np.float32),
        versions_T=array(counts, np.int32),
        mask_T=array(st.booleans(), np.bool_),
        spans=draw(
            st.lists(st.builds(Span, request_id=texts, start=counts, stop=counts)).map(tuple)
        ),
        text=draw(texts),
        finish=draw(st.sampled_from(FinishReason)),
        detail=draw(texts),
        step=draw(counts),
        parent=draw(st.none() | texts),
        fork_at=draw(counts),
        reward=draw(st.none() | finite),
        error=draw(st.none() | texts),
        origin=draw(st.sampled_from(["fresh", "replay"])),
        notes=draw(notes),
    )


@st.composite
def groups(draw):
    prompt, id = draw(prompts), draw(texts)
    members = draw(st.lists(rollouts(prompt, id), min_size=1, max_size=3))

    def signal(rollout):
        per_token = st.just(np.linspace(-1, 1, len(rollout), dtype=np.float32))
        return Signal(
            reward=draw(st.none() | numbers),
            advantage=draw(st.none() | numbers | per_token),
            weight=draw(numbers),
            rejected=draw(st.none() | texts),
        )

    return Group(
        id=id,
        prompt=prompt,
        rollouts=tuple(members),
        signals=tuple(map(signal, members)),
        rejected=draw(st.none() | texts),
        values=draw(values),
    )


@st.composite
def batches(draw):
    prompt = draw(prompts)
    return RolloutBatch(
        step=draw(st.integers(0, 999_999)),
        version=draw(counts),
        samples=(),
        groups=draw(st.lists(groups(), max_size=3).map(tuple)),
        aborted=draw(st.lists(rollouts(prompt), max_size=2).map(tuple)),
        cost=Cost(),
        metrics={},
    )


def make_batch(step=1, *, rewards=(0.0, 1.0)):
    prompt = Prompt(id="p", tokens=(1, 2), text="1+1=", answer="2")

    def rollout(name, reward):
        return Rollout(
            id=name,
            group_id="g",
            prompt=prompt,
            tokens_T=np.array([3, 4, 5], np.int32),
            logprobs_T=np.full(3, -0.5, np.float32),
            versions_T=np.zeros(3, np.int32),
            mask_T=np.array([True, False, True]),
            spans=(Span(request_id=name, start=0, stop=3),),
            text="2",
            finish=FinishReason.STOP,
            step=step,
            reward=reward,
        )

    made = [rollout(f"r{i}", reward) for i, reward in enumerate(rewards)]
    group = Group(
        id="g",
        prompt=prompt,
        rollouts=tuple(made),
        signals=tuple(Signal(reward=r, advantage=0.5) for r in rewards),
    ).reject_rollouts([1], reason="flat")
    sample = Sample(rollout=made[0], advantage_T=np.array([0.5, 0, 0.5], np.float32))
    return RolloutBatch(
        step=step,
        version=0,
        samples=(sample,),
        groups=(group,),
        aborted=(rollout("late", None),),
        cost=Cost(),
        metrics={},
    )


@given(batch=batches())
def test_what_is_written_comes_back(tmp_path_factory, batch):
    path = write_rollouts(tmp_path_factory.mktemp("rollouts"), batch=batch)
    found = read_update(path)
    assert found.step == batch.step
    assert same(found.groups, batch.groups)
    assert same(found.aborted, batch.aborted)


def test_what_a_correction_made_comes_back_with_its_rollouts(tmp_path):
    made = {f"r{i}": (np.float32([0.5, i, 2]), np.array([True, False, i == 0])) for i in range(2)}
    before = write_rollouts(tmp_path, batch=make_batch(1))
    path = write_rollouts(tmp_path, batch=make_batch(2))
    write_corrections(tmp_path, made=made, update=2)
    assert not read_update(before).corrected
    found = read_update(path).corrected
    assert found.keys() == made.keys() and all(same(found[name], made[name]) for name in made)
    shown = {each.rollout.id: each.corrected for each in look_at(path)}
    assert shown.pop("late") is None and all(same(shown[name], made[name]) for name in made)
    assert [*files(tmp_path)] == [1, 2], "its own file is none of rollouts"


def test_groups_of_a_run_come_in_the_order_of_updates(tmp_path):
    for step in (2, 10, 1):
        write_rollouts(tmp_path, batch=make_batch(step))
    (tmp_path / "update-000001 (1).parquet").touch()  # what a file manager calls a copy
    steps = [group.rollouts[0].step for group in read_rollouts(tmp_path)]
    assert steps == [1, 2, 10]


def test_writing_an_update_again_replaces_it_and_leaves_nothing_else(tmp_path):
    write_rollouts(tmp_path, batch=make_batch(rewards=(0.0, 0.0)))
    write_rollouts(tmp_path, batch=make_batch(rewards=(0.0, 1.0)))
    assert [file.name for file in tmp_path.iterdir()] == ["update-000001.parquet"]
    (group,) = read_rollouts(tmp_path)
    assert [r.reward for r in group.rollouts] == [0.0, 1.0]


def test_the_mean_advantage_is_of_the_tokens_that_the_policy_sampled(tmp_path):
    batch = make_batch()
    first, *others = batch.groups[0].signals
    token_wise = replace(first, advantage=np.array([1.0, 9.0, 2.0], np.float32))
    odd = [replace(s, advantage=np.ones(2, np.float32)) for s in others]
    group = replace(batch.groups[0], signals=(token_wise, *odd))
    file = write_rollouts(tmp_path, batch=replace(batch, groups=(group, *batch.groups[1:])))
    assert [row["advantage"] for row in read(file)] == [1.5, None, None]
    assert read_update(file).groups[0].signals[1].advantage.tolist() == [1.0, 1.0]


def test_datasets_loads_the_files(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for step in (1, 2):
        write_rollouts(tmp_path / "rollouts", batch=make_batch(step))
    files = str(tmp_path / "rollouts" / "*.parquet")
    table = datasets.load_dataset("parquet", data_files=files, split="train")
    assert len(table) == 6
    row = table[0]
    assert row["prompt"] == "1+1="
    assert row["tokens"] == [3, 4, 5]
    assert row["length"] == 3
    assert row["sampled_tokens"] == row["trained_tokens"] == 2
    assert table["rejected"][:3] == [None, "flat", None]
    assert table["group_index"][:3] == [0, 0, None]


def test_a_file_that_is_cut_short_or_missing_is_named_with_what_to_do(tmp_path):
    none = {"samples": (), "groups": (), "aborted": (), "cost": Cost(), "metrics": {}}
    file = write_rollouts(tmp_path, batch=RolloutBatch(step=0, version=0, **none))
    whole = file.read_bytes()
    for left in (whole[:-50], whole[:2], b""):
        file.write_bytes(left)
        with pytest.raises(
            CheckpointError, match=r"update-000000\.parquet is damaged.* from a copy"
        ):
            read_update(file)
    with pytest.raises(CheckpointError, match=r"update-000001\.parquet is damaged or missing"):
        read_update(tmp_path / "update-000001.parquet")
    file.write_bytes(whole)
    assert read_update(file).groups == ()
