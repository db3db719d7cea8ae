"""What a report shows of a rollout is bounded, whatever the rollout is."""

import numpy as np

from gfcr.leaderboard.shown_rollouts import ShownRun
from gfcr.tracking.looked_at import LookedAt
from gfcr.types import FinishReason, Prompt, Rollout, Signal


def seen(length, *, advantage, pieces=True, prompt="1+1=", given=()):
    mask = np.array([i not in given for i in range(length)], np.bool_)
    rollout = Rollout(
        id="r",
        group_id="g",
        prompt=Prompt(id="p", tokens=(1,), text=prompt, answer="2"),
        tokens_T=np.zeros(length, np.int32),
        logprobs_T=np.zeros(length, np.float32),
        versions_T=np.zeros(length, np.int32),
        mask_T=mask,
        spans=(),
        text="ab" * length,
        finish=FinishReason.HALTED,
        detail="cycle",
        step=3,
        reward=0.5,
    )
    signal = Signal(reward=0.25, advantage=advantage)
    spelled = ("ab",) * length if pieces else ()
    return LookedAt(update=3, rollout=rollout, signal=signal, fate="trained", pieces=spelled)


def card(one):
    found = ShownRun(seed=4, rollouts=[one]).data()
    assert (found["seed"], found["update"]) == (4, 3)
    (shown,) = found["shown"]
    return shown


def test_a_long_rollout_is_cut_and_says_by_how_much():
    by_token = np.linspace(-1, 1, 2500, dtype=np.float32)
    shown = card(seen(2500, advantage=by_token, prompt="q" * 9000, given=(1, 2400)))
    assert len(shown["pieces"]) == len(shown["advantages"]) == 2000 and shown["cut"] == 500
    assert shown["given"] == [1] and len(shown["prompt"]) == 6000
    assert shown["length"] == 2500 and shown["finish"] == "halted cycle"
    assert shown["advantages"][0] == -1 and shown["shaped"] == 0.25


def test_one_advantage_is_told_once_and_text_without_tokens_is_one_piece():
    alike = card(seen(3, advantage=0.5, given=(1,)))
    assert (alike["advantages"], alike["given"], alike["cut"]) == (0.5, [1], 0)
    whole = card(seen(4000, advantage=np.linspace(0, 1, 4000, dtype=np.float32), pieces=False))
    assert (len(whole["pieces"]), len(whole["pieces"][0]), whole["given"]) == (1, 6000, [])
    assert whole["advantages"] == whole["advantage"] == 0.5
    assert card(seen(2, advantage=None))["advantages"] is None
    assert card(seen(0, advantage=1.0))["advantage"] is None
