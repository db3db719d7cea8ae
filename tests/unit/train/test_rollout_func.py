from types import SimpleNamespace

import numpy as np
import pytest

from gfcr.errors import EngineError
from gfcr.train.rollout_func import make_rollout_func, reward
from gfcr.types import FinishReason, Prompt, Rollout, Span


def rollout(text, *, length=3, score=1.0):
    return Rollout(
        id=text,
        group_id=text,
        prompt=Prompt(id=text, tokens=(1, 2), text=text, answer=""),
        tokens_T=np.arange(length, dtype=np.int32),
        logprobs_T=-np.ones(length, np.float32),
        versions_T=np.zeros(length, np.int32),
        mask_T=np.arange(length) != 1,
        spans=(Span(request_id=text, start=0, stop=length),),
        text="",
        finish=FinishReason.STOP,
        step=0,
        reward=score,
    )


STATES = [SimpleNamespace(global_step=step) for step in range(2)]


def trainer(step=0):
    model = SimpleNamespace(named_parameters=lambda: iter([("w", step)]))
    return SimpleNamespace(
        model=model,
        accelerator=SimpleNamespace(unwrap_model=lambda m: m),
        state=STATES[step],
    )


def made(**changes):
    asked, synced = [], []

    def generate(prompts, *, counts):
        asked.append((list(prompts), list(counts)))
        return [
            rollout(str(p), **changes)
            for p, n in zip(prompts, counts, strict=True)
            for _ in range(n)
        ]

    def sync(weights, *, version):
        synced.append((dict(weights), version))

    return make_rollout_func(generate, sync=sync), asked, synced


def test_repeats_become_counts_even_in_a_slice_that_cuts_a_group():
    function, asked, _ = made()
    rows = function(["b", "c", "c", "c", "d", "d"], trainer())
    assert asked == [(["b", "c", "d"], [1, 3, 2])]
    assert rows["completion_ids"] == [[0, 1, 2]] * 6
    assert rows["prompt_ids"] == [[1, 2]] * 6
    assert rows["logprobs"] == [[-1, -1, -1]] * 6
    assert rows["env_mask"] == [[1, 0, 1]] * 6


def test_conversations_are_grouped_too():
    function, asked, _ = made()
    talks = [[{"role": "user", "content": word}] for word in ("hi", "hi", "bye")]
    function(talks, trainer())
    assert asked == [([talks[0], talks[2]], [2, 1])]


def test_the_policy_is_synced_once_a_version():
    function, _, synced = made()
    for step in (0, 0, 1, 1):
        function(["a"], trainer(step))
    another = trainer(1)  # as by a second `train`, which counts its steps anew
    another.state = SimpleNamespace(global_step=1)
    function(["a"], another)
    assert synced == [({"w": 0}, 0), ({"w": 1}, 1), ({"w": 1}, 1)]


def test_the_verifier_s_reward_reaches_trl():
    function, _, _ = made(score=None)
    rows = function(["a", "a"], trainer())
    assert reward(["a", "a"], ["", ""], **{"rollout_reward": rows["rollout_reward"]}) == [None] * 2


def test_a_rollout_without_tokens_is_refused():
    function, _, _ = made(length=0)
    with pytest.raises(EngineError, match="rollouts a have no tokens"):
        function(["a"], trainer())
