"""DAS: what it proposes, to whom, what it learns, and that sampling stays exact."""

import errno
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from gfcr import strategy as strategies
from gfcr.engine.base import Request
from gfcr.engine.fake import EOS, Fake, FakeEngine, Script
from gfcr.errors import ConfigError
from gfcr.ledger import IN_FLIGHT
from gfcr.pipeline import Pipeline
from gfcr.speculation.auto import Auto
from gfcr.speculation.base import Draft, Row, Target
from gfcr.speculation.das import Das
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Sampling, Span
from tests.cases import over

PROMPT = (4, 5, 6)
TEXT = tuple(np.random.default_rng(3).integers(4, 20, 60).tolist())
TARGET = Target(folder=None, vocab=20, max_length=256)


def drafter(**changes: Any) -> Das:
    return Das(**{"budget": "none", **changes})


def row(tokens: Sequence[int], *, name: str = "r", prompt_id: str = "p", limit: int = 8) -> Row:
    return Row(
        request_id=name,
        prompt_id=prompt_id,
        slot="/0",
        sampling=Sampling(),
        tokens_T=np.array([*PROMPT, *tokens], np.int32),
        prompt_length=len(PROMPT),
        begun=0,
        limit=limit,
    )


def proposed(das: Das, tokens: Sequence[int], **changes: Any) -> list[int]:
    """What it proposes to a request that has emitted these tokens, and forgets about."""
    asked = row(tokens, **changes)
    draft = list(das.propose([asked])[0].tokens)
    das._live.pop(asked.request_id)
    return draft


def harvest(*texts: Sequence[int], prompt_id: str = "p", step: int = 0) -> Harvest:
    """A batch of one group whose rollouts are these texts."""
    prompt = make.prompt()
    prompt = type(prompt)(id=prompt_id, tokens=PROMPT, text="", answer="")
    rollouts = [
        make.rollout(
            i,
            of=prompt,
            length=len(text),
            tokens_T=np.array(text, np.int32),
            spans=(Span(request_id=f"{step}/{i}", start=0, stop=len(text)),),
        )
        for i, text in enumerate(texts)
    ]
    return Harvest(step=step, groups=(make.group_of(rollouts),), aborted=())


def learned(*texts: Sequence[int], prompt_id: str = "p", **changes: Any) -> Das:
    das = drafter(**changes)
    das.observe(harvest(*texts, prompt_id=prompt_id), view=make.view())
    return das


def engine(das: Das | None, *, script: Script | None = None, seed: int = 7) -> FakeEngine:
    if das is not None:
        das.check(TARGET)
    return FakeEngine(Fake(mean_length=30.0), seed=seed, script=script, drafter=das)


def finish(running: FakeEngine, *requests: Request) -> dict[str, list[int]]:
    """All tokens of each request."""
    for each in requests:
        running.submit(each)
    made: dict[str, list[int]] = {r.id: [] for r in requests}
    while deltas := running.step():
        for delta in deltas:
            made[delta.request_id] += delta.tokens
    return made


def request(name: str, *, max_tokens: int = 100, **changes: Any) -> Request:
    sampling = Sampling(max_tokens=max_tokens)
    return Request(id=name, tokens=PROMPT, sampling=sampling, prompt_id="p", **changes)


# ------------------------------------------------------------ proposals


def test_a_replayed_output_is_accepted_whole() -> None:
    das = learned(TEXT, draft_length=8, factor=100.0)
    running = engine(das, script=lambda _: TEXT)
    assert finish(running, request("a"))["a"] == [*TEXT, EOS]
    stats = running.stats()
    assert stats.drafted_tokens == stats.accepted_tokens
    # The first two tokens of the prompt's end match: every pass emits b + 1 of l tokens.
    assert stats.forward_passes == -(-(len(TEXT) + 1) // (8 + 1))


def test_random_output_is_accepted_once_in_a_vocabulary() -> None:
    symbols = 16
    rng = np.random.default_rng(0)
    texts = [rng.integers(4, 4 + symbols, 400).tolist() for _ in range(9)]
    das = learned(texts[0], match=1, draft_length=1, min_prob=1e-6, own=False)
    accepted = asked = 0
    for text in texts[1:]:
        for t in range(1, len(text) - 1):
            draft = proposed(das, text[:t])
            asked += len(draft)
            accepted += sum(d == x for d, x in zip(draft, text[t:], strict=False))
    rate = accepted / asked
    assert asked > 2000
    assert abs(rate - 1 / symbols) < 4 * np.sqrt((1 - 1 / symbols) / symbols / asked)


def test_the_most_frequent_continuation_is_proposed_while_it_is_likely() -> None:
    common, rare = [7, 8, 9, 10, 11], [7, 8, 12, 13, 14]
    das = learned(common, common, common, rare, own=False, factor=10.0)
    assert proposed(das, [7, 8]) == [9, 10, 11]
    assert proposed(das, [7, 8, 12]) == [13, 14]
    sure = learned(common, common, common, rare, own=False, factor=10.0, min_prob=0.8)
    assert proposed(sure, [7, 8]) == []  # 3 of 4 is less than 0.8
    assert proposed(sure, [7]) == [8]


def test_a_draft_is_no_longer_than_asked_or_than_its_match_warrants() -> None:
    das = learned(TEXT, factor=1.0, own=False)
    for t in (1, 2, 3, 5):
        # The prompt's end belongs to the match; the library never matches all of a context.
        assert len(proposed(das, TEXT[:t])) == min(8, t + len(PROMPT) - 1)
        assert len(proposed(das, TEXT[:t], limit=2)) == 2


@over("scope", ["problem", "global", "both"])
def test_the_scope_says_whose_rollouts_count(scope: Any) -> None:
    das = learned(TEXT, prompt_id="q", scope=scope, own=False)
    assert proposed(das, TEXT[:6], prompt_id="q")
    assert bool(proposed(das, TEXT[:6], prompt_id="p")) == (scope != "problem")


def test_requests_of_no_problem_are_not_remembered() -> None:
    das = drafter(own=False, scope="both")
    das.propose([row(TEXT[:3], name="a", prompt_id="")])
    das.finished(row(TEXT, name="a", prompt_id=""), law=None)
    das.observe(Harvest(step=0, groups=(), aborted=()), view=make.view())
    assert das.metrics()["sequences"] == 0


def test_siblings_help_as_soon_as_they_finish() -> None:
    das = drafter(own=False)
    das.propose([row(TEXT[:3], name="a"), row(TEXT[:2], name="b")])
    assert not proposed(das, TEXT[:6])
    das.finished(row(TEXT, name="a"), law=None)
    assert proposed(das, TEXT[:6]) == list(TEXT[6:14])


def test_a_request_repeats_itself_if_it_may() -> None:
    twice = [7, 8, 9, 10, 11, 12, 7, 8, 9]
    assert proposed(drafter(), twice) == [10, 11, 12, 7, 8, 9]
    assert proposed(drafter(own=False), twice) == []


def test_only_what_was_drafted_counts_as_accepted() -> None:
    das, end = learned(TEXT, own=False), [*TEXT[:10], 4, 4, 4]
    das.propose([row(TEXT[:6])])
    das.propose([row(end)])  # four were accepted, and the drafts paused for two
    assert das._counts["accepted"] == 4
    das.propose([row(TEXT[:20], name="s")])
    das.finished(row(TEXT[:22], name="s"), law=None)  # it ended within the draft
    assert das._counts["accepted"] == 6


def test_what_was_never_asked_about_is_remembered_only_from_the_batch() -> None:
    das = drafter(own=False)
    das.finished(row(TEXT, name="evaluation"), law=None)
    assert not proposed(das, TEXT[:6])
    das.observe(harvest(TEXT), view=make.view())
    assert proposed(das, TEXT[:6])


def test_a_rollout_is_remembered_once() -> None:
    das = drafter()
    name = harvest(TEXT).groups[0].rollouts[0].spans[0].request_id
    das.propose([row(TEXT[:3], name=name)])
    das.finished(row(TEXT, name=name), law=None)
    das.observe(harvest(TEXT), view=make.view())
    assert das.metrics()["sequences"] == 1


def test_a_rollout_of_a_batch_in_the_making_is_remembered_once_after_a_resume_too() -> None:
    das, batch = drafter(), harvest(TEXT)
    name = batch.groups[0].rollouts[0].spans[0].request_id
    das.propose([row(TEXT[:3], name=name)])
    das.finished(row(TEXT, name=name), law=None)
    das.observe(Harvest(step=0, groups=(), aborted=()), view=make.view())
    again = drafter()
    again.load_state_dict(pickle.loads(pickle.dumps(das.state_dict())))
    partial = Harvest(step=1, groups=(), aborted=batch.groups[0].rollouts)  # and then resumed
    # The last one never asked for it: it went on from what a checkpoint holds.
    for each in (das, again, drafter()):
        for seen in (partial, partial, batch):
            each.observe(seen, view=make.view())
            assert each.metrics()["sequences"] == 1
        assert each.state_dict()["limits"]["recent"] == [len(TEXT)]
        for _ in range(each.window + 1):
            each.observe(Harvest(step=2, groups=(), aborted=()), view=make.view())
        assert not each.state_dict()["finished"], "names are forgotten in the end"


# ------------------------------------------------------------ forgetting, order


def test_order_of_insertion_does_not_matter_where_nothing_ties() -> None:
    texts = [[7, 8, 9, 10], [7, 8, 9, 11], [7, 8, 9, 10], [7, 8, 12, 13], [8, 9, 10, 5]]
    contexts = [[7], [7, 8], [7, 8, 9], [8, 9], [7, 8, 12], [12]]
    orders = [np.random.default_rng(i).permutation(len(texts)) for i in range(6)]
    drafts = [
        [proposed(learned(*(texts[i] for i in order)), c) for c in contexts] for order in orders
    ]
    assert all(d == drafts[0] for d in drafts)


def test_the_window_forgets_between_updates_only() -> None:
    old, new = [7, 8, 9, 10, 11, 7, 9, 8], [12, 13, 14, 15, 12, 14, 13]
    das = learned(old, window=2, own=False)
    for step in (1, 2):
        assert proposed(das, old[:6])
        das.observe(harvest(new, step=step), view=make.view())
    assert not proposed(das, old[:6])
    assert proposed(das, new[:6])
    for window in (1, 2, 3, 8):
        das = drafter(window=window)
        for step in range(3 * window):
            das.observe(harvest(new, step=step), view=make.view())
            assert min(step + 1, window / 2) <= das.metrics()["sequences"] <= window


def test_the_least_recently_visited_problem_goes_when_memory_is_full() -> None:
    das = drafter(capacity=170, own=False)
    for step, name in enumerate(["a", "b", "a", "c"]):
        das.observe(harvest(TEXT[:50], prompt_id=name, step=step), view=make.view())
    assert [bool(proposed(das, TEXT[:6], prompt_id=n)) for n in "abc"] == [True, False, True]
    assert das.metrics()["tokens"] <= 170


def test_a_full_memory_keeps_half_of_the_tree_that_all_problems_share() -> None:
    das = drafter(capacity=300, own=False, scope="both")
    for step in range(30):
        das.observe(harvest(TEXT[:47], prompt_id=f"p{step}", step=step), view=make.view())
        assert 150 < das.metrics()["tokens"] <= 300 or step < 2
        assert proposed(das, TEXT[:6], prompt_id="new")


# ------------------------------------------------------------ state


def noisy(das: Das, *, steps: int, texts: int = 6) -> list[list[int]]:
    """Updates of variations of a text; returns what is proposed on the way."""
    drafts: list[list[int]] = []
    rng = np.random.default_rng(5)
    for step in range(steps):
        made: list[list[int]] = []
        for _ in range(texts):
            text = np.array(TEXT)
            wrong = rng.random(len(text)) < 0.2
            text[wrong] = rng.integers(4, 20, wrong.sum())
            made.append(text.tolist())
        drafts += [proposed(das, t[:n]) for t in made for n in range(2, 50, 3)]
        das.observe(harvest(*made, step=step), view=make.view())
    return drafts


@over("scope", ["problem", "both"])
@over("steps", [1, 3, 9])
def test_a_restored_drafter_proposes_the_same(scope: Any, steps: int) -> None:
    das = drafter(scope=scope, window=4)
    noisy(das, steps=steps)
    again = drafter(scope=scope, window=4)
    again.load_state_dict(pickle.loads(pickle.dumps(das.state_dict())))
    assert again.metrics() == das.metrics()
    assert noisy(again, steps=5) == noisy(das, steps=5)


def test_a_history_file_outlives_the_run(tmp_path: Path) -> None:
    file = tmp_path / "new" / "history.npz"
    das = drafter(history=str(file))
    das.check(TARGET)
    das.observe(harvest(TEXT), view=make.view())
    again = drafter(history=str(file), own=False)
    assert not proposed(again, TEXT[:6])
    again.check(TARGET)
    assert proposed(again, TEXT[:6]) == proposed(das, TEXT[:6]) != []
    assert [f.name for f in file.parent.iterdir()] == ["history.npz"]


@over("most", [2, 8])
def test_a_history_serves_drafts_of_another_length(tmp_path: Path, most: int) -> None:
    for length in (4, most):
        das = drafter(history=str(tmp_path / "history.npz"), draft_length=length)
        das.check(TARGET)
        for made in (TEXT[:6], TEXT[:12]):
            das.propose([row(made, limit=length)])
        das.observe(harvest(TEXT), view=make.view())
    for counts, *_ in das.state_dict()["limits"]["acceptance"]:
        assert len(counts) == most + 1 and sum(counts) == 1


def test_a_history_that_finds_a_full_disk_leaves_the_old_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "history.npz"
    das = drafter(history=str(file))
    das.check(TARGET)
    das.observe(harvest(TEXT), view=make.view())
    held = file.read_bytes()

    def full(to: Any, **_: Any) -> None:
        to.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    das.observe(harvest(TEXT), view=make.view())
    assert "could not be written" in caplog.text
    assert [*tmp_path.iterdir()] == [file] and file.read_bytes() == held


def test_a_history_of_another_model_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "history.npz"
    das = drafter(history=str(file))
    das.check(TARGET)
    das.observe(harvest(TEXT), view=make.view())
    other = Target(folder=None, vocab=21, max_length=256)
    with pytest.raises(ConfigError, match=r"history\.npz was written for another model: its vocab"):
        drafter(history=str(file)).check(other)
    assert file.exists()


def test_a_history_of_another_tokenizer_is_refused(tmp_path: Path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
        (folder / "tokenizer.json").write_text(f'{{"model": "{folder.name}"}}')
    ours, theirs = (Target(folder=f, vocab=20, max_length=256) for f in folders)
    das = drafter(history=str(tmp_path / "h"))
    das.check(ours)
    das.observe(harvest(TEXT), view=make.view())
    with pytest.raises(ConfigError, match="another model: its tokenizer is"):
        drafter(history=str(tmp_path / "h")).check(theirs)


def truncate(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    middle = len(data) - 400
    return data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]


@over("spoil", [truncate, flip, lambda _: b"", lambda _: b"no archive"])
def test_a_corrupt_history_is_set_aside_and_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[bytes], bytes]
) -> None:
    file = tmp_path / "history.npz"
    for number in (1, 2):
        das = drafter(history=str(file))
        das.check(TARGET)
        das.observe(harvest(TEXT), view=make.view())
        file.write_bytes(spoil(file.read_bytes()))
        again = drafter(history=str(file))
        again.check(TARGET)
        aside = tmp_path / f"history.npz.corrupt-{number}"
        assert aside.exists() and not file.exists() and aside.name in caplog.text
        again.observe(harvest(TEXT), view=make.view())
        assert again.metrics()["set_aside"] == 1 and file.exists()


def test_a_history_in_an_impossible_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "history", tmp_path):
        with pytest.raises(ConfigError, match=r"drafter\.history=.* cannot be used"):
            drafter(history=str(place)).check(TARGET)
    assert (tmp_path / "file").exists(), "a folder is no corrupt file to set aside"


@over(
    "wrong",
    [
        *({name: 0} for name in ("draft_length", "window", "match", "capacity")),
        {"factor": 0.0},
        {"min_prob": 0.0},
        {"min_prob": 1.5},
    ],
    ids=str,
)
def test_impossible_values_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"Das\.{next(iter(wrong))}="):
        Das(**wrong)


# ------------------------------------------------------------ exactness, in a run


@pytest.mark.slow
def test_the_law_of_tokens_is_the_targets() -> None:
    """Independent requests through an engine whose law is known, half of them drafted well."""
    das = drafter(draft_length=4, factor=10.0, min_prob=0.01)
    running = engine(das)
    sampling = Sampling(max_tokens=4)
    num = 2500
    finish(running, *(request(f"w{i}", max_tokens=40, seed=10**6 + i) for i in range(200)))
    made = finish(running, *(request(f"s{i}", max_tokens=4, seed=i) for i in range(num)))
    stats = running.stats()
    assert stats.accepted_tokens > 500 and stats.drafted_tokens > 1.5 * stats.accepted_tokens
    # Tokens 2 and 3 were drafted: their counts after the likeliest contexts.
    for position in (1, 2):
        contexts: dict[tuple[int, ...], list[int]] = {}
        for tokens in made.values():
            if len(tokens) > position:
                contexts.setdefault(tuple([*PROMPT, *tokens][: position + 3]), []).append(
                    tokens[position]
                )
        for context, after in sorted(contexts.items(), key=lambda c: -len(c[1]))[:3]:
            p_V = running.probabilities(context, sampling=sampling).astype(np.float64)
            seen_V = np.bincount(after, minlength=len(p_V))
            likely = p_V * len(after) >= 5
            expected = np.append(p_V[likely], p_V[~likely].sum())
            seen = np.append(seen_V[likely], seen_V[~likely].sum())
            keep = expected > 0
            p = chisquare(seen[keep], expected[keep] / expected.sum() * len(after)).pvalue
            assert p > 1e-4, (context, p)


def pipeline(das: Das, *, drafts: bool = True) -> Pipeline:
    """Eight problems, all in each update, on an engine that repeats itself."""
    task = make.CoinTask(rates=(0.4, 0.6), num_train=8)
    strategy = replace(strategies.load("grpo", group_size=4), drafter=das)
    return make.pipeline(
        strategy, task=task, prompts=8, on=lambda _: engine(das if drafts else None)
    )


def updates(run: Pipeline, *, num: int) -> list[Any]:
    batches: list[Any] = []
    for _ in range(num):
        # The law stays: version 0 throughout.
        batches.append(run.next_batch())
    return batches


@over("budget", ["none", "classes", "optimal"])
def test_a_run_drafts_from_its_second_epoch_and_accounts_for_every_token(budget: Any) -> None:
    run = pipeline(Das(budget=budget, min_prob=0.02))
    batches = updates(run, num=5)
    drafted = [
        b.metrics["drafter/drafted_medium"] + b.metrics["drafter/drafted_long"] for b in batches
    ]
    assert drafted[-1] > 0 and batches[-1].metrics["drafter/hit_rate"] > 0.3
    bins = run.ledger.bins()
    assert run.engine.stats().generated_tokens == sum(bins.values())
    assert IN_FLIGHT not in bins
    for drafter in (Das(budget=budget), Auto(drafter=Das(budget=budget))):
        strategy = replace(run.strategy, drafter=drafter)
        free = make.pipeline(strategy, prompts=8, engine={"step_s": 0, "token_s": 0})
        assert [len(b.samples) for b in updates(free, num=5)] == [32] * 5


def test_drafting_changes_no_sampled_token() -> None:
    """The fake engine draws alike with and without point-mass drafts."""
    plain = pipeline(Das(budget="none"), drafts=False)
    assert [_tokens(b) for b in updates(pipeline(Das(budget="none")), num=3)] == [
        _tokens(b) for b in updates(plain, num=3)
    ]


def _tokens(batch: Any) -> list[list[int]]:
    return [s.rollout.tokens_T.tolist() for s in batch.samples]


def test_a_draft_of_nothing_is_nothing() -> None:
    assert drafter().propose([]) == []
    assert list(drafter().propose([row([7])])) == [Draft()]
