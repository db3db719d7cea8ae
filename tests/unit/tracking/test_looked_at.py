"""What became of each rollout of an update, and which of them people are shown."""

from dataclasses import replace

import numpy as np

from gfcr.loop.batch import samples
from gfcr.tracking.looked_at import look_at, picked, rewards_of
from gfcr.tracking.rollouts import spelling, write_rollouts
from gfcr.types import Cost, FinishReason, Group, Prompt, Rollout, RolloutBatch, Sample, Signal
from tests.cases import over

PROMPT = Prompt(id="p", tokens=(1,), text="1+1=", answer="2")


def rollout(name, reward=0.0, **more):
    return Rollout(
        id=name,
        group_id="g",
        prompt=PROMPT,
        tokens_T=np.array([7, 8], np.int32),
        logprobs_T=np.zeros(2, np.float32),
        versions_T=np.zeros(2, np.int32),
        mask_T=np.array([True, False]),
        spans=(),
        text="2",
        finish=FinishReason.STOP,
        step=3,
        reward=reward,
        **more,
    )


def looked(tmp_path, *pairs, trained=(), rejected=None, aborted=(), asides=(), spell=None):
    """What is seen of one group's (rollout, signal) pairs, those named being trained on."""
    rollouts, signals = zip(*pairs, strict=True)
    group = Group(id="g", prompt=PROMPT, rollouts=rollouts, signals=signals, rejected=rejected)
    ones = np.ones(2, np.float32)
    batch = RolloutBatch(
        step=3,
        version=2,
        samples=tuple(Sample(rollout=r, advantage_T=ones) for r in rollouts if r.id in trained),
        groups=(group,),
        aborted=aborted,
        asides=asides,
        cost=Cost(),
        metrics={},
    )
    return look_at(write_rollouts(tmp_path, batch=batch, spell=spell))


def plain(name, reward, advantage=None, **more):
    return rollout(name, reward), Signal(reward=reward, advantage=advantage, **more)


def test_every_rollout_has_one_fate(tmp_path):
    cut = replace(rollout("cut", None), finish=FinishReason.ABORTED)
    found = looked(
        tmp_path,
        plain("in", 1.0, 1.0),
        plain("out", 0.0, rejected="overlong"),
        plain("spare", 0.0, 0.0),
        plain("light", 1.0, 1.0, weight=0.0),
        trained=["in"],
        aborted=(cut, rollout("late", None)),
        asides=(replace(rollout("judge", None), role="judge"),),
    )
    assert [(r.rollout.id, r.fate) for r in found] == [
        ("in", "trained"),
        ("out", "rejected: overlong"),
        ("spare", "not trained"),
        ("light", "rejected: masked"),
        ("cut", "aborted"),
        ("late", "not trained"),
        ("judge", "aside: judge"),
    ]
    assert {r.update for r in found} == {4} and found[4].advantage_T is None
    gone = looked(tmp_path, plain("a", 0.0), plain("b", 0.0, rejected="own"), rejected="dead")
    assert [r.fate for r in gone] == ["rejected: dead", "rejected: own"]


def test_a_rollout_recalled_twice_is_trained_in_the_group_that_was(tmp_path):
    recalled, signal = rollout("old", 1.0, origin="replay"), Signal(reward=1.0, advantage=1.0)
    first = Group(id="g", prompt=PROMPT, rollouts=(recalled,), signals=(signal,), rejected="dead")
    second = replace(first, id="h", rejected=None)
    (sample,) = samples([first, second])
    made = {"step": 3, "version": 2, "aborted": (), "cost": Cost(), "metrics": {}}
    batch = RolloutBatch(samples=(sample,), groups=(first, second), **made)
    found = look_at(write_rollouts(tmp_path, batch=batch))
    assert [each.fate for each in found] == ["rejected: dead", "trained"]


@over(
    ("advantage", "expected"),
    [(None, None), (2.0, [2.0, 0.0]), (np.array([0.5, 9], np.float32), [0.5, 0.0])],
)
def test_advantages_are_by_token_and_of_sampled_ones(tmp_path, advantage, expected):
    (only,) = looked(tmp_path, plain("a", 1.0, advantage))
    assert (only.advantage_T if expected is None else only.advantage_T.tolist()) == expected
    assert only.mean_advantage == (expected and expected[0]), "the second token was not sampled"


def test_rewards_have_their_names(tmp_path):
    one = rollout("a", 1.2, notes={"rewards/right": 1.0, "rewards/brief": 0.2, "depth": 3.0})
    (only,) = looked(tmp_path, (one, Signal(reward=1.2)))
    assert rewards_of(only.rollout) == {"right": 1.0, "brief": 0.2}


def test_tokens_are_spelled_where_a_tokenizer_was_given(tmp_path):
    words = {7: " the", 8: ""}  # one that strips what is before the first

    def decode(tokens):
        return "".join(words[t] for t in tokens).lstrip()

    (spelled,) = looked(tmp_path, plain("a", 1.0), spell=spelling(decode))
    assert spelled.pieces == (" the", "")
    (bare,) = looked(tmp_path, plain("a", 1.0))
    assert bare.pieces == ()


def test_the_best_and_the_worst_are_of_what_was_trained_on_and_rejections_take_turns(tmp_path):
    pairs = [
        plain("a", 0.0, -1.0),
        plain("b", 1.0, 0.5),
        plain("c", 1.0, 2.0),
        plain("d", 0.5, 0.0),
        plain("e", 9.0, rejected="long"),
        plain("f", 9.0, rejected="long"),
        plain("g", 9.0, rejected="dull"),
    ]
    found = looked(tmp_path, *pairs, trained="abcd")

    def names(each):
        return {p: [r.rollout.id for r in rs] for p, rs in picked(found, each=each).items()}

    assert names(1) == {"best": ["c"], "worst": ["a"], "rejected": ["e"]}
    assert names(2) == {"best": ["c", "b"], "worst": ["a", "d"], "rejected": ["e", "g"]}
    assert names(9) == {"best": ["c", "b", "d", "a"], "worst": [], "rejected": ["e", "g", "f"]}
    alone = picked(found, each=3, picks=["worst"])["worst"]
    assert [r.rollout.id for r in alone] == ["a", "d", "b"], "who asks for no best loses none"
    dead = looked(tmp_path, plain("a", 0.0), plain("b", 1.0), plain("n", None), rejected="dead")
    found = {pick: [r.rollout.id for r in rs] for pick, rs in picked(dead).items()}
    assert found == {"best": ["b"], "worst": ["a"], "rejected": ["n"]}
    assert not any(picked([]).values())
