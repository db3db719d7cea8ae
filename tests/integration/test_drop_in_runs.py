"""What goes on around the updates of a script with a strategy, on the fake engine. About 20 s."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig
from trl import GRPOTrainer as Stock

from gfcr import drop_in
from gfcr import strategy as strategies
from gfcr.correction.base import Corrected, Correction, Learned
from gfcr.drop_in import GRPOTrainer
from gfcr.drop_in.encode import encode
from gfcr.errors import CheckpointError, ConfigError, FolderInUse
from gfcr.stages import AfterUpdate, Control, View
from gfcr.tracking.parquet import files
from gfcr.tracking.rollouts import read_rollouts, read_update
from gfcr.train import checkpoint
from tests.integration.tiny_model import tiny_chain_sum
from tests.integration.trl_stock import arguments, train_stock
from tests.sample import sample

ROWS = {"prompt": ["1+2=", "3+4=", "5+6=", "7+8="]}


def brief(completions: list[str], **_: Any) -> list[float]:
    return [-float(len(text)) for text in completions]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_chain_sum(tmp_path_factory.mktemp("model"))


def make(
    model: str,
    folder: Path,
    *,
    reward: Any = brief,
    prompts: Any = None,
    rows: Any = None,
    strategy: Any = "grpo",
    lora: Any = None,
    columns: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Any:
    given = arguments(folder, rollouts=16, size=4, max_completion_length=12, logging_steps=1)
    return GRPOTrainer(
        model,
        reward_funcs=reward,
        args=GRPOConfig(**(given | changes)),
        train_dataset=Dataset.from_dict({"prompt": prompts or ROWS["prompt"], **(columns or {})}),
        eval_dataset=rows,
        strategy=strategy,
        engine={"name": "fake"},
        peft_config=lora,
    )


def logged(trainer: Any, key: str) -> list[Any]:
    return [entry[key] for entry in trainer.state.log_history if key in entry]


@pytest.mark.parametrize("passes", [pytest.param(1, marks=pytest.mark.whole), 2])
def test_evaluation_between_updates_changes_none_of_them(
    model: str, tmp_path: Path, passes: int
) -> None:
    shape = {"gradient_accumulation_steps": passes, "per_device_train_batch_size": 16 // passes}
    plain = train_stock(make(model, tmp_path / "plain", max_steps=3, **shape))
    evaluated = make(
        model,
        tmp_path / "evaluated",
        rows={"one": Dataset.from_dict(ROWS), "two": Dataset.from_dict({"prompt": ["9-1="] * 8})},
        max_steps=3,
        eval_strategy="steps",
        eval_steps=1,
        eval_on_start=True,
        num_generations_eval=2,
        **shape,
    )
    change = train_stock(evaluated)
    assert torch.equal(change, plain)
    rewards = logged(evaluated, "eval_reward")  # TRL's name, whatever the split
    assert len(rewards) == 8 and all(-12 <= reward <= 0 for reward in rewards)
    assert len(logged(evaluated, "eval_one_loss")) == len(logged(evaluated, "eval_two_loss")) == 4
    assert len(logged(evaluated, "loss")) == 3
    assert {"eval_one_loss", "eval_two_loss"} <= evaluated.evaluate().keys()


def test_what_reward_functions_log_is_training_s_in_training(model: str, tmp_path: Path) -> None:
    def reward(completions: list[str], log_metric: Any, log_extra: Any, **_: Any) -> list[float]:
        log_extra("length", [len(c) for c in completions])
        log_metric("asked_for", float(len(completions)))
        return brief(completions)

    trainer = make(
        model,
        tmp_path,
        reward=reward,
        rows=Dataset.from_dict(ROWS),
        eval_strategy="steps",
        eval_steps=1,
        per_device_eval_batch_size=8,
    )
    trainer.train()
    assert logged(trainer, "asked_for") == [16.0, 16.0]  # all completions of an update at once
    assert logged(trainer, "eval_asked_for") == [8.0, 8.0]
    assert not trainer._pending_metrics and not trainer._pending_extra_logs
    rewards = logged(trainer, "rewards/reward/mean")
    assert rewards == pytest.approx(logged(trainer, "reward/all"))


@dataclass(kw_only=True)
class Counts(Correction):
    """Halves every weight, and counts how often it was asked."""

    asked: int = field(init=False, default=0)

    def correct(self, update: Sequence[Learned]) -> Sequence[Corrected]:
        self.asked += 1
        return [Corrected(weight=0.5) for _ in update]

    def metrics(self) -> dict[str, float]:
        return {"asked": float(self.asked)}


@pytest.mark.parametrize("steps", [1, pytest.param(2, marks=pytest.mark.whole)])
def test_what_a_correction_measured_stands_in_its_update_s_own_row_the_last_included(
    model: str, tmp_path: Path, steps: int
) -> None:
    """A later row, of the second step on the same batch, has none."""
    plan = replace(strategies.load("grpo"), correction=Counts())
    shape = {"num_iterations": steps, "max_steps": 3 * steps}
    trainer = make(model, tmp_path, strategy=plan, **shape)
    trainer.train()
    rows = [row for row in trainer.state.log_history if "loss" in row]
    wanted = [n + 1.0 if step == 0 else None for n in range(3) for step in range(steps)]
    assert [row.get("correction/asked") for row in rows] == wanted
    stored = [read_update(file) for file in files(tmp_path / "rollouts").values()]
    assert [{*held.corrected} for held in stored] == [
        {i for _, i in held.trained} for held in stored
    ]
    weights = [w for held in stored for weight_T, _ in held.corrected.values() for w in weight_T]
    assert len(stored) == 3 and {*weights} == {0.5}


@dataclass(kw_only=True)
class Hears(Control, AfterUpdate):
    """Keeps the entropy of each update that it hears of, and the number of the next."""

    heard: list[tuple[int, float]] = field(init=False, default_factory=list)

    def after_update(self, metrics: Mapping[str, float], *, view: View) -> None:
        self.heard.append((view.step, metrics["entropy"]))


@pytest.mark.parametrize("logging", [{"logging_steps": 2}, {"logging_strategy": "no"}])
def test_parts_hear_of_updates_that_the_script_does_not_log(
    model: str, tmp_path: Path, logging: dict[str, Any]
) -> None:
    plan = strategies.replace(strategies.load("grpo"), controls={"hears": Hears()})
    trainer = make(model, tmp_path, strategy=plan, max_steps=3, **logging)
    trainer.train()
    (part,) = trainer.strategy.controls.values()
    assert [update for update, _ in part.heard] == [1, 2, 3]
    assert all(entropy > 0 for _, entropy in part.heard)


def test_the_best_checkpoint_stays_and_comes_back(model: str, tmp_path: Path) -> None:
    """TRL's own rotation, which knows the best; the first is made the best."""
    scores = iter([1.0, 0.0, 0.0])

    def reward(completions: list[str], trainer_state: Any, **_: Any) -> list[float]:
        evaluating = len(completions) == 4
        return [next(scores)] * len(completions) if evaluating else brief(completions)

    trainer = make(
        model,
        tmp_path,
        reward=reward,
        rows=Dataset.from_dict({"prompt": ["1+2="]}),
        max_steps=3,
        eval_strategy="steps",
        eval_steps=1,
        save_strategy="steps",
        save_steps=1,
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model="reward",
        greater_is_better=True,
        num_generations_eval=4,
        per_device_eval_batch_size=4,
    )
    trainer.train()
    assert Path(trainer.state.best_model_checkpoint).name == "checkpoint-1"
    assert {p.name for p in tmp_path.glob("checkpoint-*")} >= {"checkpoint-1"}


def test_a_run_killed_while_it_saves_has_the_checkpoint_before(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the limit: older ones go once the new one is complete."""
    saving = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1, "save_total_limit": 1}
    commit = checkpoint.commit

    def killed(folder: Path, **given: Any) -> None:
        if folder.name == "checkpoint-2":
            raise KeyboardInterrupt
        commit(folder, **given)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(checkpoint, "commit", killed)
        make(model, tmp_path, **saving).train()
    assert [p.name for p in checkpoint.complete(tmp_path)] == ["checkpoint-1"]
    again = make(model, tmp_path, **saving)
    again.train(resume_from_checkpoint=True)
    assert again.state.global_step == 3 and again.args.save_total_limit == 1
    assert [p.name for p in tmp_path.glob("checkpoint-*")] == ["checkpoint-3"]
    again.train()  # the same trainer once more: its feed completes before older ones go
    assert [p.name for p in checkpoint.complete(tmp_path)] == ["checkpoint-3"]


ANSWERS = {"answer": ["3333", "7777", "1111", "5555"], "limit": [1, 2, 3, 4]}


@pytest.mark.parametrize("column", ["answer", "limit"])
def test_hints_are_of_the_dataset_s_columns(model: str, tmp_path: Path, column: str) -> None:
    seen = list[int]()

    def reward(completions: list[str], limit: list[int], **_: Any) -> list[float]:
        seen.extend(limit)
        return brief(completions)

    asked = {"columns": ANSWERS, "reward": reward, "max_steps": 1}
    plan = {"name": "scaf_grpo", "column": column}
    trainer = make(model, tmp_path, strategy=plan, **asked)
    trainer.train()
    made = [r for g in read_rollouts(tmp_path / "rollouts") for r in g.rollouts]
    under = [r for r in made if "hint" in r.notes]
    assert {*seen} == {*ANSWERS["limit"]} and len(under) == 12
    for rollout in made:
        row = {name: values[int(rollout.prompt.id)] for name, values in ANSWERS.items()}
        assert rollout.prompt.meta == row and rollout.prompt.answer == row["answer"]
    for rollout in under:
        whole = str(rollout.prompt.meta[column])
        hint = whole[: ceil(rollout.notes["hint"] * len(whole))]
        told = f"{hint},{rollout.prompt.text}"
        assert list(rollout.sampled_under) == list(encode(told, trainer=trainer))


def test_columns_change_no_batch(model: str, tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 1, "columns": ANSWERS, "max_steps": 3}
    make(model, tmp_path / "plain", max_steps=3).train()
    make(model, tmp_path, **saving).train()
    assert texts(tmp_path / "rollouts") == texts(tmp_path / "plain" / "rollouts")
    make(model, tmp_path, **saving).train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert texts(tmp_path / "rollouts") == texts(tmp_path / "plain" / "rollouts")


def test_two_trainers_on_one_folder_are_refused(model: str, tmp_path: Path) -> None:
    second = make(model, tmp_path)
    found: list[Any] = []

    def reward(completions: list[str], **_: Any) -> list[float]:
        if not found:
            with pytest.raises(FolderInUse) as error:
                second.train()
            found.append(error.value)
        return brief(completions)

    first = make(model, tmp_path, reward=reward)
    first.train()
    assert first.state.global_step == 2 and second.state.global_step == 0
    assert str(tmp_path) in str(found[0])
    second.train()  # free again
    assert second.state.global_step == 2


def test_rollouts_of_an_earlier_run_do_not_mix_with_a_new_one_s(model: str, tmp_path: Path) -> None:
    saving = {"max_steps": 3, "save_strategy": "steps", "save_steps": 1}
    make(model, tmp_path, **saving).train()
    earlier = texts(tmp_path / "rollouts")
    back = make(model, tmp_path, **saving)
    back.train(resume_from_checkpoint=str(tmp_path / "checkpoint-1"))
    assert texts(tmp_path / "rollouts") == earlier  # made again, and the same
    aside = sorted(p.name for p in (tmp_path / "rollouts.before-1").iterdir())
    assert aside == ["update-000001.parquet", "update-000002.parquet"]
    kept = (tmp_path / "checkpoint-1").rename(tmp_path / "kept")
    make(model, tmp_path, **saving).train(resume_from_checkpoint=str(kept))  # whatever its name
    assert texts(tmp_path / "rollouts") == earlier
    make(model, tmp_path, max_steps=2, seed=5).train()
    assert len(list((tmp_path / "rollouts").iterdir())) == 2
    assert texts(tmp_path / "rollouts.before-3") == earlier


def texts(folder: Path) -> list[str]:
    return [r.text for group in read_rollouts(folder) for r in group.rollouts]


WRONG: dict[str, Callable[[list[Any], int], list[Any]]] = {
    "none": lambda rewards, at: [*rewards[:at], None, *rewards[at + 1 :]],
    "infinite": lambda rewards, at: [*rewards[:at], float("inf"), *rewards[at + 1 :]],
    "nan": lambda rewards, at: [*rewards[:at], float("nan"), *rewards[at + 1 :]],
    "text": lambda rewards, at: [*rewards[:at], "a", *rewards[at + 1 :]],
    "more": lambda rewards, at: [*rewards, 1.0],
    "nothing": lambda rewards, at: [],
    "error": lambda rewards, at: [1 / 0],
}


@pytest.mark.parametrize("wrong", sample(WRONG, always=["none", "more", "nan", "error"]))
def test_what_a_reward_function_gets_wrong_is_no_reward(
    model: str, tmp_path: Path, wrong: str
) -> None:
    """A function that fails for one text leaves its rollouts out; the others are trained on."""
    bad = list[str]()

    def sometimes(completions: list[str], **_: Any) -> Any:
        bad.extend(completions[:1] if not bad else [])
        rewards: list[Any] = brief(completions)
        for at, text in enumerate(completions):
            rewards = WRONG[wrong](rewards, at) if text == bad[0] else rewards
        return rewards

    trainer = make(model, tmp_path, reward=sometimes, max_steps=1)
    before = copy.deepcopy(trainer.model.state_dict())
    trainer.train()
    rollouts = [r for g in read_rollouts(tmp_path / "rollouts") for r in g.rollouts]
    assert len(rollouts) == 16 and {r.text for r in rollouts if r.reward is None} == {*bad}
    assert all(r.reward in (None, -len(r.text)) for r in rollouts)
    after = trainer.model.state_dict()
    assert all(torch.isfinite(t).all() for t in after.values())
    assert any(not torch.equal(before[n], after[n]) for n in before)


def test_a_checkpoint_of_another_run_is_refused(model: str, tmp_path: Path) -> None:
    make(model, tmp_path, save_strategy="steps", save_steps=1).train()
    others = {
        "strategy=": {"strategy": "dr_grpo"},
        "seed=3, not 42": {"seed": 3},
        "steps of a batch=2, not 1": {"num_iterations": 2},
    }
    for words, changes in others.items():
        with pytest.raises(CheckpointError, match=f"is of another run: this one has {words}"):
            make(model, tmp_path, **changes).train(resume_from_checkpoint=True)
    assert len(list((tmp_path / "rollouts").iterdir())) == 2  # nothing was touched


def test_other_rows_templates_and_rewards_are_named_and_resumed_only_where_accepted(
    model: str, tmp_path: Path
) -> None:
    def more(completions: list[str], **_: Any) -> list[float]:
        return [1.0 + len(text) for text in completions]

    def other(completions: list[str], **_: Any) -> list[float]:
        return [2.0 + len(text) for text in completions]

    given = {"strategy": "repo", "reward": [brief, more]}
    make(model, tmp_path, save_strategy="steps", save_steps=1, max_steps=1, **given).train()
    other.__name__ = brief.__name__
    others = {
        "dataset": {"prompts": [*ROWS["prompt"][:3], "2+2="]},
        "reward function 'brief'": {"reward": [other, more]},
        "reward function 'more'": {"reward": [brief]},
    }
    for words, changes in others.items():
        trainer = make(model, tmp_path, **{**given, **changes})
        with pytest.raises(CheckpointError, match=f"was left with another {words}.*accept_data"):
            trainer.train(resume_from_checkpoint=True)
        trainer.train(resume_from_checkpoint=True, accept_data=True)
        assert trainer.state.global_step == 2
    assert len(list((tmp_path / "rollouts").iterdir())) == 2


@pytest.mark.parametrize("strategy", ["repo", "april"])
def test_replay_survives_a_checkpoint(model: str, tmp_path: Path, strategy: str) -> None:
    saving = {"max_steps": 3, "save_strategy": "steps", "save_steps": 2, "strategy": strategy}
    whole = train_stock(make(model, tmp_path, **saving))
    held = texts(tmp_path / "rollouts")
    again = make(model, tmp_path, **saving)
    begun = copy.deepcopy(again.model.state_dict())
    again.train(resume_from_checkpoint=True)
    assert texts(tmp_path / "rollouts") == held and whole.norm() > 0
    assert any(not torch.equal(begun[n], t) for n, t in again.model.state_dict().items())


@pytest.mark.parametrize(
    "lora",
    [pytest.param(None, marks=pytest.mark.whole), LoraConfig(r=2, target_modules="all-linear")],
)
def test_batches_of_several_steps_resume(model: str, tmp_path: Path, lora: Any) -> None:
    """Two steps over two parts, twice: what is saved comes between batches."""
    steps = {"num_iterations": 2, "per_device_train_batch_size": 4, "steps_per_generation": 4}
    saving = {"save_strategy": "steps", "save_steps": 4, "learning_rate": 0.01}
    sharp = {"name": "grpo", "loss": {"clip_low": 1e-6, "clip_high": 1e-6}}  # what moves is clipped
    asked = {**steps, **saving, "max_steps": 12, "lora": lora, "strategy": sharp}
    trainer = make(model, tmp_path, **asked)
    trainer.train()
    held = texts(tmp_path / "rollouts")
    assert len(held) == 3 * 16 and len(list((tmp_path / "rollouts").iterdir())) == 3
    assert max(logged(trainer, "clip_ratio/region_mean")) > 0
    kept = {p.name for p in (tmp_path / "checkpoint-8").iterdir()}
    assert ("adapter_model.safetensors" in kept) == (lora is not None)
    again = make(model, tmp_path, **asked)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert texts(tmp_path / "rollouts") == held
    whole = dict(trainer.model.named_parameters())
    assert all(torch.equal(p, whole[n]) for n, p in again.model.named_parameters())


def test_settings_changed_after_construction(model: str, tmp_path: Path) -> None:
    trainer = make(model, tmp_path)
    trainer.args.temperature = 0.1  # TRL's loss has its own copy, and so has the engine's sampling
    trainer.args.gradient_accumulation_steps = 4
    with pytest.raises(ConfigError, match="an optimizer step takes gradient_accumulation_steps=4"):
        trainer.train()
    trainer.args.gradient_accumulation_steps = 2
    plain = make(model, tmp_path / "plain")
    assert torch.equal(train_stock(trainer), train_stock(plain))


CHAT = "{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}{% endif %}"


def test_messages_are_encoded_and_told_as_trl_does(model: str, tmp_path: Path) -> None:
    seen: list[Any] = []

    def reward(prompts: Any, completions: Any, **_: Any) -> list[float]:
        seen.append((prompts[0], completions[0]))
        return [-float(len(turns[0]["content"])) for turns in completions]

    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = CHAT.replace("{% endif %}", "{{ mark }}{% endif %}")
    tokenizer.save_pretrained(tmp_path / "model")
    AutoModelForCausalLM.from_pretrained(model).save_pretrained(tmp_path / "model")
    turns = [[{"role": "user", "content": f"{n}+2="}] for n in range(4)]
    trainer = make(
        str(tmp_path / "model"),
        tmp_path / "run",
        reward=reward,
        prompts=turns,
        chat_template_kwargs={"mark": "?"},
    )
    asked, *_ = trainer._tokenize_prompts(turns)
    assert [list(encode(each, trainer=trainer)) for each in turns] == asked
    trainer.train()
    held = {g.prompt.id: g.prompt.tokens for g in read_rollouts(tmp_path / "run" / "rollouts")}
    assert [list(held[str(n)]) for n in range(4)] == asked
    prompt, ((answer),) = seen[0]
    assert prompt in turns and answer.keys() == {"role", "content"}
    assert answer["role"] == "assistant"


class Paying:
    """An environment of TRL's kind, which pays for short actions."""

    paid = 0.0

    def reset(self, **columns: str) -> None:
        assert columns["prompt"] in ROWS["prompt"]

    def say(self, text: str) -> str:
        """Hears.

        Args:
            text: the action.
        """
        self.paid = 1.0 / (1 + len(text))
        return "1"

    def get_reward(self) -> float:
        return self.paid


EPISODES = {"name": "trl", "factory": f"{__name__}:Paying", "method": "say"}
MADE: dict[str, dict[str, Any]] = {
    "plan_then_act": {"generate": {"template": "1+{prompt}"}, "answers": 2},
    "self_repair": {"generate": {"template": "{prompt}{attempt}+{prompt}"}},
    "stepwise": {"generate": {"environment": EPISODES}},
}
"""Strategies whose rollouts are trained under prompts that no row of the dataset has."""


@pytest.mark.parametrize("name", MADE)
def test_a_prompt_that_a_part_made_is_trained_and_shown(
    name: str, model: str, tmp_path: Path
) -> None:
    asked: list[str] = []

    def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        asked.extend(prompts)
        return [float(len(text) % 2) for text in completions]

    given = {"name": name, **MADE[name]}
    trainer = make(model, tmp_path, reward=reward, strategy=given, max_steps=2)
    trainer.train()
    groups = [*read_rollouts(tmp_path / "rollouts")]
    made = {r.prompt.text for g in groups for r in g.rollouts} - {*ROWS["prompt"]}
    assert made & {*trainer._logs["prompt"]}
    assert {*asked} <= {*ROWS["prompt"]}, "rewards are the row's"
    if name == "stepwise":
        paid = [r.reward for g in groups for r in g.rollouts]
        assert not asked and {*paid} > {0.0}
        assert sum(logged(trainer, "reward")) > 0


def test_what_an_environment_pays_is_not_left_out_of_a_rollout_func(
    model: str, tmp_path: Path
) -> None:
    episode = {"name": "episode", "environment": EPISODES, "stop": "=", "max_turns": 4}
    made = drop_in.rollout_func("grpo", model=model, engine={"name": "fake"}, generate=episode)
    args = GRPOConfig(**arguments(tmp_path, rollouts=16, size=4, max_completion_length=12))
    rows = Dataset.from_dict(ROWS)
    trainer = Stock(
        model=model, reward_funcs=brief, args=args, train_dataset=rows, rollout_func=made
    )
    with pytest.raises(ConfigError, match="'grpo' says itself what rollouts are worth"):
        trainer.train()
    made.close()
