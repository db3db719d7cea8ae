"""Strategies as TRL's `rollout_func`, on the fake engine with a stand-in for the trainer."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from gfcr import drop_in
from gfcr import strategy as strategies
from gfcr.drop_in import DropIn, given, rollouts
from gfcr.drop_in.encode import UNSAMPLED
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.errors import ConfigError
from gfcr.stages import AfterUpdate, Control, Follower, Watcher
from gfcr.strategy import Strategy
from gfcr.tasks.base import TURNS, Codec, Problems
from gfcr.testing import factories as make
from tests.cases import over

STATES = [SimpleNamespace(global_step=step) for step in range(2)]


def trainer(*, step: int = 0, cap: int = 12, training: bool = True, **settings: Any) -> Any:
    """What a drop-in reads of a GRPOTrainer."""
    model = SimpleNamespace(named_parameters=dict, training=training)
    plain = {"max_completion_length": cap, "temperature": 1.0, "top_p": 1.0, "top_k": 0}
    return SimpleNamespace(
        state=STATES[step],
        model=model,
        accelerator=SimpleNamespace(unwrap_model=lambda m: m),
        args=SimpleNamespace(**(plain | {"min_p": None} | UNSAMPLED | settings)),
        processing_class=lambda text: {"input_ids": list(make.CODEC.prompt(text))},
    )


def made(strategy: Strategy, *, task: Any = None) -> DropIn:
    engine = FakeEngine(Fake(), seed=7)
    task = task or rollouts._Unscored()
    problems = task.problems(make.CODEC)
    return DropIn(strategy, engine=engine, codec=make.CODEC, task=task, problems=problems, seed=0)


def accepted(name: str) -> bool:
    try:
        drop_in.check(strategies.load(name))
    except ConfigError:
        return False
    return True


USABLE = [name for name in strategies.names() if accepted(name)]


def test_what_only_generates_and_watches_is_usable() -> None:
    assert {"grpo", "multi_turn", "repetition_stop"} <= set(USABLE)
    others = {"april", "dapo", "dr_grpo", "greso", "pods", "reinforce_ada", "repo", "rloo"}
    assert not {"treerl", *others} & set(USABLE)
    assert not {"cispo", "gspo", "sapo", "vespo"} & set(USABLE), "the loss is TRL's"


@over("name", USABLE)
def test_a_usable_strategy_makes_as_many_completions_as_asked_for(name: str) -> None:
    out = made(strategies.load(name))(["1+1="] * 3 + ["2+2="] * 5, trainer())
    assert len(out["completion_ids"]) == 8


@over("name", sorted(set(strategies.names()) - set(USABLE)))
def test_a_refusal_names_the_parts_and_the_way_out(name: str) -> None:
    strategy = strategies.load(name)
    with pytest.raises(
        ConfigError, match=rf"'{name}' cannot be a rollout_func: .*GRPOTrainer"
    ) as error:
        drop_in.check(strategy)
    assert any(address in str(error.value) for address in [*strategy.parts, "loss is"])


@dataclass(kw_only=True)
class Follows(Control, Follower):
    def follow(self, weights: Any, *, version: int) -> None: ...


@dataclass(kw_only=True)
class Hears(Control, AfterUpdate):
    def after_update(self, metrics: Any, *, view: Any) -> None: ...


@over(("part", "said"), [(Follows(), "weights"), (Hears(), "metrics")])
def test_parts_that_nobody_would_ask_are_refused(part: Control, said: str) -> None:
    plan = strategies.replace(strategies.load("grpo"), controls={"mine": part})
    with pytest.raises(ConfigError, match=rf"controls\.mine (follows|learns from) .*{said}"):
        drop_in.check(plan)


def test_more_rollouts_than_asked_for_are_refused_whatever_makes_the_advantages() -> None:
    for generate in ({"name": "entropy_tree"}, {"name": "self_repair"}):
        tree = strategies.load("grpo", generate=generate)
        with pytest.raises(ConfigError, match="generate makes more rollouts than it was asked for"):
            drop_in.check(tree)


def test_without_what_trl_does_itself_a_refused_strategy_can_be_used() -> None:
    with pytest.raises(ConfigError, match=r"controls\.refill decides.*filters\.zero_variance"):
        drop_in.check(strategies.load("dapo"))
    gone = {"zero_variance": None, "soft_overlong": None}
    drop_in.check(strategies.load("dapo", filters=gone, controls={"refill": None}))


@dataclass(kw_only=True)
class Counts(Control, Watcher):
    seen: set[int] = field(init=False, default_factory=set[int])

    def watch(self, trajectory: Any, *, new: int, view: Any) -> None:
        self.seen.add(view.running)


def test_every_prompt_gets_its_completions_in_order() -> None:
    prompts, counts = ["1+1=", "1+1=", "2+2=", "1+1=", "3+3=", "3+3="], Counts()
    plan = strategies.replace(strategies.load("grpo"), controls={"counts": counts})
    out = made(plan)(list(prompts), trainer())
    assert max(counts.seen) == 6, "parts see how many are in flight"
    assert [make.CODEC.decode(ids) for ids in out["prompt_ids"]] == prompts
    assert all(1 <= len(ids) <= 12 for ids in out["completion_ids"])
    for key in ("logprobs", "env_mask"):
        assert list(map(len, out[key])) == list(map(len, out["completion_ids"]))
    assert out["rollout_reward"] == [None] * 6
    completions = [tuple(ids) for ids in out["completion_ids"]]
    assert completions[0] != completions[3]  # the same prompt again, apart from its group


def test_a_second_batch_under_one_policy_draws_anew_and_the_seed_decides() -> None:
    first, again = made(strategies.load("grpo")), made(strategies.load("grpo"))
    prompts = ["1+1="] * 4
    one = first(list(prompts), trainer())["completion_ids"]
    two = first(list(prompts), trainer())["completion_ids"]
    assert one != two
    assert again(list(prompts), trainer())["completion_ids"] == one
    assert first(list(prompts), trainer(step=1)) and first.engine.version == 1


def test_a_task_scores_its_own_prompts_only() -> None:
    task = make.CoinTask(rates=(1.0,))
    scored = made(strategies.load("grpo"), task=task)
    assert scored(["3=", "3="], trainer())["rollout_reward"] == [1.0, 1.0]
    with pytest.raises(ConfigError, match=r"'9999=' is none of the task's problems"):
        scored(["9999="], trainer())


def told(word: str) -> list[dict[str, str]]:
    """A conversation whose last turn is that of others."""
    return [{"role": "system", "content": word}, {"role": "user", "content": "more"}]


@dataclass(kw_only=True)
class Ambiguous(make.CoinTask):
    """Asks the first prompt a second time, with another answer."""

    def problems(self, codec: Codec) -> Problems:
        found = super().problems(codec)
        first, second, *_ = found.train
        again = [replace(first, id="again", answer="other"), replace(second, id="same")]
        for word in "ab":
            again.append(
                replace(first, id=word, text="more", answer=word, meta={TURNS: told(word)})
            )
        return replace(found, train=[*found.train, *again])


def test_a_text_that_several_problems_of_a_task_ask_is_scored_by_none() -> None:
    scored = made(strategies.load("grpo"), task=Ambiguous(rates=(1.0,)))
    assert scored(["1=", "1="], trainer())["rollout_reward"] == [1.0, 1.0]
    with pytest.raises(ConfigError, match=r"'0=' is that of several .*with other answers"):
        scored(["0="], trainer())
    own = scored._trainer = trainer()
    own.chat_template, own.chat_template_kwargs = None, {}
    own.processing_class = SimpleNamespace(apply_chat_template=lambda **_: {"input_ids": [5, 6]})
    assert [scored._prompt(told(word)).answer for word in "ab"] == ["a", "b"], "by all turns"
    with pytest.raises(ConfigError, match=r"'more' is that of several"):
        scored._prompt(told("c"))


@over(
    "settings",
    [
        {"repetition_penalty": 1.1},
        {"generation_kwargs": {"no_repeat_ngram_size": 2}},
        {"vllm_structured_outputs_regex": "[0-9]+"},
    ],
)
def test_a_law_that_the_engine_does_not_sample_is_refused(settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(ConfigError, match=rf"{name}=.*: rollouts are sampled from the policy"):
        made(strategies.load("grpo"))(["1+1=", "1+1="], trainer(**settings))
    out = made(strategies.load("grpo"))(["1+1=", "1+1="], trainer(generation_kwargs={}))
    assert len(out["completion_ids"]) == 2


def test_trl_s_evaluation_leaves_training_s_draws_as_they_are() -> None:
    plain, evaluated = made(strategies.load("grpo")), made(strategies.load("grpo"))
    prompts = ["1+1="] * 4
    plain(list(prompts), trainer())
    evaluated(list(prompts), trainer())
    evaluated(list(prompts), trainer(training=False))
    assert evaluated(list(prompts), trainer()) == plain(list(prompts), trainer())


def test_a_model_without_a_bound_on_positions_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """As Bloom's and Mamba's configurations have none."""
    monkeypatch.setattr(given, "_tokenizer", lambda tokenizer, *, folder: iter(()))

    def loaded(**config: int) -> Any:
        own = SimpleNamespace(**config)
        model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: own))
        parts = {"processing_class": None, "_is_vlm": False}
        return SimpleNamespace(model=model, args=SimpleNamespace(max_completion_length=64), **parts)

    given.check_loaded(loaded(), folder="")
    given.check_loaded(loaded(max_position_embeddings=65), folder="")
    with pytest.raises(ConfigError, match="room for 64 tokens"):
        given.check_loaded(loaded(max_position_embeddings=64), folder="")
