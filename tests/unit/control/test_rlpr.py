"""RLPR: the reward is the policy's probability of the reference, by brute force."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gfcr import strategy as strategies
from gfcr.control.places import reaching
from gfcr.control.rlpr import Rlpr
from gfcr.errors import ConfigError, GfcrError
from gfcr.tasks.chain_sum import ChainSum
from gfcr.testing import factories as make
from gfcr.types import Floats, Prompt, Sampling
from tests.cases import over


class Asked:
    """A view that says of each sequence's tokens what a table does."""

    def __init__(self, *, context: int = 1000) -> None:
        self.sampling, self.room = Sampling(), context - Sampling().max_tokens
        self.sequences: list[list[int]] = []

    def encode(self, text: str) -> tuple[int, ...]:
        return make.CODEC.encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        return make.CODEC.decode(tokens)

    def score(self, sequences: Sequence[Sequence[int]]) -> list[Floats]:
        self.sequences += [list(s) for s in sequences]
        return [np.log([_p(s[:i]) for i in range(1, len(s))]).astype(np.float32) for s in sequences]


def _p(before: Sequence[int]) -> float:
    return (sum(before) * 7919 % 97 + 1) / 100


def rewarded(
    texts: list[str], context: int = 1000, last_under: str = "", **knobs: Any
) -> tuple[Any, Any, Asked]:
    rollouts = [
        make.rollout(i, text=t, tokens_T=np.array(make.CODEC.encode(t), np.int32), length=len(t))
        for i, t in enumerate(texts)
    ]
    if last_under:
        rollouts[-1] = replace(
            rollouts[-1],
            prompt=replace(make.prompt(), id="again", tokens=make.CODEC.encode(last_under)),
        )
    view, part = Asked(context=context), Rlpr(**knobs)
    scratch: Any = type("Beside", (), {"view": view})
    with pytest.raises(StopIteration) as done:
        part.evaluate(make.group_of(rollouts), scratch).send(None)
    return part, done.value.value, view


def brute(head: str, under: str = "") -> float:
    """Of the reference 3, one token, behind the prompt 1+2= (or another one) and a head."""
    begin = make.CODEC.encode(under) if under else make.prompt().tokens
    return _p([*begin, *make.CODEC.encode(head)])


@over("debias", [True, False])
def test_the_reward_is_the_reference_s_probability_behind_the_reasoning(debias: bool) -> None:
    texts = ["1+2=3#3", "#9", "1-1#2#", "12"]
    part, group, _ = rewarded(texts, debias=debias)
    base = brute("#") if debias else 0.0
    heads = ["1+2=3#", "#", "1-1#2#"]
    wanted = [*(np.clip(brute(head) - base, 0, 1) for head in heads), 0.0]
    np.testing.assert_allclose(group.raw_rewards_N, wanted, atol=1e-5)
    assert part.metrics()["scored"] == 4 and part.metrics()["unmarked"] == 1
    assert group.values["answer_alone"] == pytest.approx(brute("#"), abs=1e-5)
    # A second try is an answer to a prompt of its own, with the first one in it.
    _, group, _ = rewarded(["1+2=3#3", "1-1#2#"], last_under="1+2=9?1+2=", debias=debias)
    base = brute("#", under="1+2=9?1+2=") if debias else 0.0
    again = np.clip(brute("1-1#2#", under="1+2=9?1+2=") - base, 0, 1)
    np.testing.assert_allclose(group.raw_rewards_N, [wanted[0], again], atol=1e-5)
    assert group.values["answer_alone"] == pytest.approx(brute("#"), abs=1e-5)


def test_where_the_engine_has_no_room_for_the_answer_nothing_is_asked_or_judged() -> None:
    """As behind a rollout that met its cap, in an engine with room for prompt and cap alone."""
    longest, texts = len(make.prompt().tokens) + len("12345#3"), ["12345#", "123456#", "123456"]
    part, group, view = rewarded(texts, context=longest, debias=False)
    rewards = [r.reward for r in group.rollouts]
    assert rewards[0] == pytest.approx(brute("12345#"), abs=1e-5) and rewards[1:] == [None, 0.0]
    assert max(map(len, view.sequences)) == longest
    assert part.metrics()["unmarked"] == 1


def test_of_several_tokens_it_is_the_mean_or_the_product() -> None:
    rollout = make.rollout(
        0, text="1#", tokens_T=np.array(make.CODEC.encode("1#"), np.int32), length=2,
        of=make.prompt(answer="345"),
    )  # fmt: skip
    found: dict[str, float] = {}
    for kind in ("mean", "likelihood"):
        part: Any = Rlpr(kind=kind, debias=False)
        scratch: Any = type("Beside", (), {"view": Asked()})
        with pytest.raises(StopIteration) as done:
            part.evaluate(make.group_of([rollout]), scratch).send(None)
        found[kind] = float(done.value.value.raw_rewards_N[0])
    sequence = [*make.prompt().tokens, *make.CODEC.encode("1#345")]
    each = [_p(sequence[: len(sequence) - k]) for k in (3, 2, 1)]
    assert found["mean"] == pytest.approx(np.mean(each), abs=1e-5)
    assert found["likelihood"] == pytest.approx(np.prod(each), abs=1e-5)


def test_a_place_in_the_text_is_found_in_the_tokens() -> None:
    view = make.view()
    tokens = [*make.CODEC.encode("1+2#3"), make.CODEC.eos_id]
    assert [reaching(tokens, chars=n, view=view) for n in range(6)] == [0, 1, 2, 3, 4, 5]


class Unanswered(make.CoinTask):
    """Prompts without references."""

    def _prompt(self, codec: Any, number: int) -> Prompt:
        return replace(super()._prompt(codec, number), answer="")


def test_no_reference_makes_a_group_unscorable_and_no_marker_is_refused() -> None:
    strategy = strategies.load("rlpr", group_size=4)
    with pytest.raises(GfcrError, match="no reference answer"):
        make.pipeline(strategy, task=Unanswered(), prompts=2).next_batch()
    # Prompts that ask for problems have none, and are another part's to judge.
    both = strategies.load("absolute_zero", controls={"rlpr": {"name": "rlpr"}})
    batch = make.pipeline(both, prompts=4).next_batch()
    assert batch.metrics["rollouts/unscorable"] == 0
    with pytest.raises(ConfigError, match=r"rlpr\.marker=''"):
        Rlpr(marker="")


def test_rlpr_trains_on_what_the_engine_says() -> None:
    strategy = strategies.load("rlpr", group_size=6, debias=False)
    pipeline = make.pipeline(strategy, task=ChainSum(num_train=8, num_heldout=1), prompts=4)
    batch = pipeline.next_batch()
    assert batch.samples and batch.metrics["controls.rlpr/scored"] == 24
    for rollout in (r for g in batch.groups for r in g.rollouts):
        tokens = rollout.tokens_T.tolist()
        at = rollout.text.rfind("#")
        if at < 0:
            assert rollout.reward == 0
            continue
        head = [*rollout.prompt.tokens, *tokens[: at + 1]]
        answer = make.CODEC.encode(rollout.prompt.answer)
        (told,) = (
            s.logprobs_T
            for s in pipeline.engine.score([[*head, *answer]], sampling=Sampling(max_tokens=40))
        )
        assert rollout.reward == pytest.approx(float(np.exp(told[-len(answer) :]).mean()), abs=1e-4)


def test_groups_without_a_spread_count_in_what_is_usual() -> None:
    """No rollout has the marker, so that all rewards are 0 and all groups are dead."""
    strategy, script = strategies.load("rlpr", group_size=4), make.scripted(lambda request: "12")
    task = ChainSum(num_train=8, num_heldout=1)
    batch = make.pipeline(strategy, task=task, prompts=4, script=script).next_batch()
    assert [g.rejected for g in batch.groups] == ["zero_variance"] * 4
    spread: Any = strategy.filters["reward_spread"]
    assert spread.usual == 0.0
