"""Each field of the real `GRPOConfig` is honoured, or refused with a reason."""

import copy
import gc
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, DatasetDict
from huggingface_hub.utils import filter_repo_objects
from peft import IA3Config, LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from trl import GRPOConfig

from gfcr import registry
from gfcr import strategy as strategies
from gfcr.config import Evaluation, Experiment
from gfcr.drop_in import GRPOTrainer, settings, trainer
from gfcr.drop_in.encode import sampling_of
from gfcr.engine.vllm import Vllm
from gfcr.errors import ConfigError
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.process.tokenizer import tokenizer_of
from gfcr.strategy import Strategy
from gfcr.train.trl import Trl
from gfcr.types import Loss, Sampling
from tests.cases import over
from tests.integration.tiny_model import tiny_chain_sum, tiny_qwen3
from tests.integration.trl_stock import arguments

NAMES = [f.name for f in fields(GRPOConfig)]
GRPO = strategies.load("grpo", group_size=4)
REFUSED = [name for name in NAMES if name not in settings.HONOURED]
RENAMED = {"activation_checkpointing", "activation_checkpointing_kwargs"}
"""What transformers calls `gradient_checkpointing` from 5.24 on."""
ODD = (True, False, 3, 0.37, "odd", {"odd": 1}, ["odd"])
"""Values of every type; one of them is no field's default."""


def config(folder: Path, **changes: Any) -> Any:
    return GRPOConfig(**arguments(folder, rollouts=16, size=4, **changes))


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return tiny_chain_sum(tmp_path_factory.mktemp("model"))


def test_each_field_is_honoured_or_refused_with_a_reason() -> None:
    assert RENAMED.union(NAMES) >= settings.HONOURED, "names that this TRL does not have"
    assert not settings.HONOURED_BY_TRL & settings.HONOURED_HERE
    given = {name: settings.why_not(name) for name in REFUSED}
    assert settings.UNKNOWN not in given.values(), given
    idle = set(settings.REASONS.values()) - {settings.UNKNOWN, *given.values()}
    assert not idle, "reasons that no field of this TRL has"


KEYS: dict[str, Any] = {
    "": Experiment,
    "trainer": Trl,
    "sampling": Sampling,
    "engine": Vllm,
    "evaluation": Evaluation,
    "strategy": Strategy,
    "strategy.loss": Loss,
}


def test_the_page_s_names_are_names_of_both_sides() -> None:
    page = (Path(__file__).parents[2] / "docs" / "trl.md").read_text()
    table = page.partition("### Names of settings")[2].partition("Reward functions")[0]
    rows = re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|", table, re.M)
    assert len(rows) > 20
    for theirs, ours in rows:
        where, _, key = ours.rpartition(".")
        assert theirs in NAMES and key in {f.name for f in fields(KEYS[where])}, (theirs, ours)


@over("name", strategies.names())
def test_defaults_go_with_every_strategy_of_grpo_s_loss(name: str, tmp_path: Path) -> None:
    strategy = strategies.load(name, group_size=4)
    words = settings.refused(config(tmp_path), strategy=strategy)
    assert bool(words) == (strategy.loss.estimator != "grpo"), words


def test_what_a_strategy_has_too_is_taken_from_the_settings(tmp_path: Path) -> None:
    asked = {
        **{"loss_type": "dr_grpo", "epsilon": 0.3, "epsilon_high": 0.4, "scale_rewards": "none"},
        **{"mask_truncated_completions": True, "use_vllm": True, "vllm_mode": "colocate"},
    }
    args = config(tmp_path, **asked)
    taken = settings.adopted(GRPO, args=args, own=())
    assert (taken.loss.aggregation, taken.loss.clip_low, taken.loss.clip_high) == (
        *("dr_grpo", 0.3, 0.4),
    )
    assert taken.filters["advantage"].kind == "dr_grpo"
    assert [*taken.filters] == ["advantage", "truncated"], "those cut are compared with, too"
    assert not settings.refused(args, strategy=taken)
    own = settings.adopted(GRPO, args=args, own=("loss", "filters"))
    assert (own.loss, own.filters["advantage"]) == (GRPO.loss, GRPO.filters["advantage"])
    assert len(settings.refused(args, strategy=own)) == 4
    assert settings.adopted(GRPO, args=config(tmp_path), own=()) == GRPO


@over("loss_type", ["grpo", "dapo", "dr_grpo", "luspo", "cispo", "sapo", "vespo"])
def test_every_loss_of_trl_s_is_one_of_a_strategy_s(loss_type: str, tmp_path: Path) -> None:
    args = config(tmp_path, loss_type=loss_type, epsilon_high=0.4)
    taken = settings.adopted(GRPO, args=args, own=())
    assert taken.loss.of_trl()["loss_type"] == loss_type and taken.loss.clip_high == 0.4
    assert not settings.refused(args, strategy=taken)


def test_a_clip_of_one_width_is_as_wide_above_as_trl_s(tmp_path: Path) -> None:
    args = config(tmp_path, epsilon=0.1)
    taken = settings.adopted(GRPO, args=args, own=())
    assert (taken.loss.clip_low, taken.loss.clip_high) == (0.1, 0.1)
    # A strategy that clips higher above than below is left what makes it one, and that is said.
    dapo = settings.adopted(strategies.load("dapo"), args=args, own=())
    assert (dapo.loss.clip_low, dapo.loss.clip_high) == (0.1, 0.28)
    assert settings.overruled(args, strategy=dapo) == "epsilon_high=0.28"


@over("name", ["repo", "rloo", "gdpo"])
def test_a_scale_that_a_strategy_has_in_its_own_map_is_not_taken_off_unsaid(
    name: str, tmp_path: Path
) -> None:
    args = config(tmp_path, scale_rewards="none")
    maps = {"repo": "split_advantage", "rloo": "group_advantage", "gdpo": "gdpo"}
    strategy = replace(GRPO, filters={"advantage": registry.build("filter", {"name": maps[name]})})
    if name == "rloo":
        strategy = replace(GRPO, filters={"advantage": GroupAdvantage(kind="rloo")})
    words = settings.refused(args, strategy=settings.adopted(strategy, args=args, own=()))
    assert bool(words) == (name != "rloo"), "which has no scale"


def test_stops_are_taken_and_nothing_else_that_changes_what_is_sampled(tmp_path: Path) -> None:
    kinds = ({"stop": "a"}, {"stop": "a", "stop_strings": ["b"]}, {"stop_token_ids": [3]})
    found = [sampling_of(config(tmp_path, generation_kwargs=given)) for given in kinds]
    assert [s.stop for s in found] == [("a",), ("a", "b"), ()]
    assert found[2].stop_token_ids == (3,) and all(s.include_stop for s in found)
    with pytest.raises(ConfigError, match="bad_words"):
        sampling_of(config(tmp_path, generation_kwargs={"stop": "a", "bad_words": ["b"]}))


@over("name", REFUSED)
def test_any_other_value_of_a_field_that_is_not_honoured_is_named(
    name: str, tmp_path: Path
) -> None:
    plain = config(tmp_path)
    default = getattr(plain, name)
    others = [odd for odd in ODD if odd != default]
    assert len(others) > 3
    for odd in others:
        args = copy.copy(plain)
        setattr(args, name, odd)
        (words,) = settings.refused(args, strategy=GRPO)
        assert words.startswith(f"{name}={odd!r}: ") and len(words) > len(name) + 20


@over(
    ("changes", "words"),
    [
        ({"steps_per_generation": 3, "max_steps": -1}, "steps_per_generation=3"),
        ({"steps_per_generation": 1}, "steps_per_generation=1"),
        ({"generation_batch_size": 24, "max_steps": -1}, "steps_per_generation=3"),
        ({"num_iterations": 2, "max_steps": 3}, "max_steps=3: rollouts last for 2 optimizer steps"),
        ({"steps_per_generation": 4, "max_steps": 3}, "max_steps=3: rollouts last for 2"),
        ({"num_iterations": 2, "max_steps": -1, "num_train_epochs": 1.5}, "num_train_epochs=1.5"),
        ({"num_iterations": 3, "max_steps": 6, "save_strategy": "steps", "save_steps": 4},
          "save_steps=4: rollouts last for 3"),
        ({"num_iterations": 3, "max_steps": 6, "save_strategy": "best", "eval_steps": 2,
          "metric_for_best_model": "reward"}, "eval_steps=2: rollouts last for 3"),
        ({"max_completion_length": None}, "max_completion_length=None"),
        ({"model_init_kwargs": {"revision": "v2"}}, "model_init_kwargs holds revision"),
        ({"model_init_kwargs": {"rope_theta": 1.0}}, "model_init_kwargs holds rope_theta"),
        ({"optim": "lomo"}, "optim='lomo': it steps in the backward pass"),
        ({"optim": "galore_adamw_layerwise"}, "optim='galore_adamw_layerwise': it steps"),
        ({"router_aux_loss_coef": 0.1}, "router_aux_loss_coef=0.1"),
        ({"pad_to_multiple_of": 8}, "pad_to_multiple_of=8"),
        ({"num_generations": 8}, "num_generations=8 and group_size=4"),
        ({"gradient_accumulation_steps": 3, "per_device_train_batch_size": 4,
          "generation_batch_size": 4 * 4}, "steps_per_generation=4, and an optimizer step takes"),
        ({"use_vllm": True, "vllm_mode": "server"}, "vllm_mode='server'"),
        ({"generation_kwargs": {"stop": "a"}, "eval_strategy": "steps", "eval_steps": 1},
          "TRL's evaluation, which generates itself, knows no stops"),
        ({"loss_type": "bnpo"}, "loss_type='bnpo', and strategy 'grpo' has 'dapo'"),
        ({"loss_type": "cispo"}, "loss_type='cispo'"),
        ({"epsilon": 0.3}, "epsilon=0.3"),
        ({"epsilon_high": 0.28}, "epsilon_high=0.28"),
        ({"scale_rewards": False}, "scale_rewards='none'"),
        ({"scale_rewards": "batch"}, "scale_rewards='batch'"),
    ],
)  # fmt: skip
def test_the_limits_of_what_is_honoured(
    changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    found = settings.refused(config(tmp_path, **changes), strategy=GRPO)
    assert len(found) == 1 and words in found[0], found


@over(
    "changes",
    [
        {"save_strategy": "steps", "save_steps": 0.25, "max_steps": 8},
        {"save_strategy": "best", "metric_for_best_model": "reward", "eval_strategy": "epoch"},
        {"save_strategy": "best", "metric_for_best_model": "reward", "eval_strategy": "epoch",
         "num_iterations": 2},
    ],
)  # fmt: skip
def test_checkpoints_by_a_share_of_the_steps_or_by_the_epoch_are_taken(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    asked = config(tmp_path, per_device_eval_batch_size=8, **changes)
    assert not settings.refused(asked, strategy=GRPO)


def test_a_field_of_a_later_trl_is_refused_when_it_is_set(tmp_path: Path) -> None:
    @dataclass
    class Later(GRPOConfig):
        brand_new: float = 0.5

    @dataclass
    class Users(GRPOConfig):
        brand_new: float = 0.5

    Later.__module__ = "trl.trainer.grpo_config"
    given = arguments(tmp_path, rollouts=16, size=4)
    assert not settings.refused(Later(**given), strategy=GRPO)
    (words,) = settings.refused(Later(**given, brand_new=0.6), strategy=GRPO)
    assert words.startswith("brand_new=0.6: this version of gfcr does not know")
    # A script's own field means nothing to TRL.
    assert not settings.refused(Users(**given, brand_new=0.6), strategy=GRPO)


def test_the_loss_that_stands_in_a_default_s_place_is_named(tmp_path: Path) -> None:
    plain = config(tmp_path)
    assert settings.overruled(plain, strategy=GRPO) == ""
    dapo, dr_grpo = strategies.load("dapo"), strategies.load("dr_grpo")
    assert settings.overruled(plain, strategy=dapo) == "epsilon_high=0.28"
    assert settings.overruled(plain, strategy=dr_grpo) == "loss_type='dr_grpo'"


# ------------------------------------------------------------ the constructor

ROWS = {"prompt": ["1+2=", "3+4=", "5+6=", "7+8="]}
TURNS = [{"role": "user", "content": "1+2="}]


def short(completions: list[str], **_: Any) -> list[float]:
    return [-float(len(c)) for c in completions]


def construct(model: Any, folder: Path, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "reward_funcs": short,
        "args": config(folder, max_completion_length=9),
        "train_dataset": Dataset.from_dict(ROWS),
        "engine": {"name": "fake"},
    }
    return GRPOTrainer(model, **(given | changes))


@over(
    ("changes", "words"),
    [
        ({"args": None}, "args=NoneType: give a GRPOConfig"),
        ({"args": {"output_dir": "x"}}, "args=dict: give a GRPOConfig"),
        ({"reward_funcs": None}, "reward_funcs: give at least one"),
        ({"reward_funcs": []}, "reward_funcs: give at least one"),
        ({"reward_funcs": [short, 3]}, "reward_funcs: int is neither"),
        ({"train_dataset": None}, "train_dataset=NoneType"),
        ({"train_dataset": ROWS}, "train_dataset=dict: give a datasets.Dataset, one of its splits"),
        (
            {"train_dataset": DatasetDict(train=Dataset.from_dict(ROWS))},
            "train_dataset=DatasetDict: give a datasets.Dataset, one of its splits",
        ),
        (
            {"train_dataset": Dataset.from_dict(ROWS).to_iterable_dataset()},
            "train_dataset=IterableDataset: give a datasets.Dataset of known length",
        ),
        (
            {"train_dataset": Dataset.from_dict({"question": ["1+2="] * 4})},
            "train_dataset has no column `prompt` (it has question)",
        ),
        (
            {"train_dataset": Dataset.from_dict({"prompt": ["1+2="] * 3})},
            "train_dataset has 3 rows, and an update takes 4 prompts",
        ),
        ({"train_dataset": Dataset.from_dict({"prompt": []})}, "train_dataset has 0 rows"),
        (
            {"train_dataset": Dataset.from_dict({"prompt": ["1+2=", "", None, "3="]})},
            "the prompt of row 1 is ''",
        ),
        (
            {"train_dataset": Dataset.from_dict({"prompt": ["1+2=", "3=", None, "3="]})},
            "the prompt of row 2 is None",
        ),
        (
            {"train_dataset": Dataset.from_dict({**ROWS, "image": [None] * 4})},
            "train_dataset has image: prompts are text here",
        ),
        (
            {"train_dataset": Dataset.from_dict({"prompt": [TURNS] * 4})},
            "the prompt of row 0 cannot be encoded: ",
        ),
        (
            {"eval_dataset": Dataset.from_dict({"question": ["1+2="]})},
            "eval_dataset has no column `prompt`",
        ),
        ({"eval_dataset": {"a": Dataset.from_dict({"q": ["1"]})}}, "eval_dataset['a'] has no"),
        (
            {"eval_dataset": Dataset.from_dict({"q": ["1"]}).to_iterable_dataset()},
            "eval_dataset has no column `prompt` (it has q)",
        ),
        (
            {"train_dataset": Dataset.from_dict({"prompt": [["1+2="]] * 4})},
            "the prompt of row 0 is ['1+2=']; give text, or messages with role and content",
        ),
        (
            {"train_dataset": Dataset.from_dict({"prompt": [[{"from": "a", "value": "b"}]] * 4})},
            "the prompt of row 0 is [{'from': 'a', 'value': 'b'}]; give text, or messages",
        ),
        (
            {"train_dataset": Dataset.from_dict({"messages": [TURNS] * 4})},
            "train_dataset has no column `prompt` (it has messages)",
        ),
        ({"optimizers": (object(), None)}, "optimizers: the trainer loads the model"),
        ({"peft_config": object()}, "peft_config=object: give a peft.LoraConfig"),
        ({"peft_config": IA3Config()}, "peft_config=IA3Config: give a peft.LoraConfig"),
        ({"peft_config": LoraConfig(modules_to_save=["norm"])}, "cannot be merged"),
        ({"quantization_config": object()}, "quantization_config: the engine"),
        ({"tools": [short]}, "tools: use a strategy with a tool"),
        ({"environment_factory": short}, "environment_factory: use a strategy"),
        ({"rollout_func": short}, "rollout_func: the strategy makes the rollouts"),
        ({"call_backs": []}, "call_backs: unknown. Did you mean 'callbacks'?"),
        ({"strategy": {"name": "grpo", "oversample": 2}}, "oversample"),
        ({"strategy": ""}, "strategy"),
        (
            {"strategy": {"name": "grpo", "filters": {"advantage": None}}},
            "strategy.filters=[] give no advantages, so nothing could be trained",
        ),
    ],
)  # fmt: skip
def test_the_constructor_names_what_it_cannot_take(
    model: str, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError) as error:
        construct(model, tmp_path, **changes)
    assert words in str(error.value)


def moved(model: str) -> Any:
    """The folder's model with other weights, as an object."""
    loaded: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    with torch.no_grad():
        for value in loaded.parameters():
            value.mul_(1.1)
    return loaded


def test_a_model_object_is_trained_itself_from_its_own_weights(model: str, tmp_path: Path) -> None:
    own = moved(model)
    before = {name: value.clone() for name, value in own.state_dict().items()}
    asked: Any = config(tmp_path, max_completion_length=9, beta=0.1)
    asked._n_gpu = 2  # as where two are seen: one is trained on
    trainer = construct(own, tmp_path, args=asked)
    assert trainer.model is own and own.config.name_or_path == model
    folder = AutoModelForCausalLM.from_pretrained(trainer._folder).state_dict()
    reference = trainer.ref_model.state_dict()
    for name, value in before.items():
        assert torch.equal(folder[name], value), f"the engine starts from another {name}"
        assert torch.equal(reference[name], value), f"the KL is to another {name}"
    trainer.train()
    assert any(not torch.equal(value, before[name]) for name, value in own.state_dict().items())
    place = Path(trainer._folder)
    assert place.parent == tmp_path
    files = [path.relative_to(tmp_path).as_posix() for path in place.rglob("*")]
    pushed = [*filter_repo_objects(files, ignore_patterns=["_*", "checkpoint-*"])]
    assert files and not pushed, "transformers' push_to_hub takes all else in output_dir"
    del trainer
    gc.collect()
    assert not place.exists()


def test_a_tokenizer_object_is_the_engine_s_too(model: str, tmp_path: Path) -> None:
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}="
    turns = {"prompt": [[{"role": "user", "content": "1+2"}]] * 4}
    trainer = construct(
        moved(model),
        tmp_path,
        processing_class=tokenizer,
        train_dataset=Dataset.from_dict(turns),
    )
    assert tokenizer_of(trainer._folder).chat_template == tokenizer.chat_template


def test_model_objects_that_cannot_be_trained_are_refused(model: str, tmp_path: Path) -> None:
    random = tiny_qwen3(tmp_path / "random")
    random.config.name_or_path = ""
    adapted, pictures = moved(model), moved(model)
    adapted.peft_config, pictures.config.vision_config = {"default": None}, {}
    cases = {
        "model=Linear: give a folder, a Hub id, a demo model": torch.nn.Linear(2, 2),
        "model=Qwen3ForCausalLM was made from no folder and no Hub id": random,
        "model=Qwen3ForCausalLM has adapters": adapted,
        "model=Qwen3ForCausalLM reads images": pictures,
    }
    for words, given in cases.items():
        with pytest.raises(ConfigError, match=words):
            construct(given, tmp_path)


def test_what_a_strategy_replaces_is_said_once(
    model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trainer._say.cache_clear()  # another file's trainers may have said it in this process
    for _ in range(2):
        construct(model, tmp_path, strategy="dr_grpo")
    said = [r.getMessage() for r in caplog.records if "the loss is that of" in r.getMessage()]
    assert said == ["the loss is that of strategy 'dr_grpo': loss_type='dr_grpo'"]


def test_no_room_for_the_completion_is_said(model: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_completion_length=256, and the model has room"):
        construct(model, tmp_path, args=config(tmp_path))  # 256 tokens in all
    with pytest.raises(ConfigError, match="max_completion_length=0"):
        construct(model, tmp_path, args=config(tmp_path, max_completion_length=0))


def test_another_vocabulary_is_refused(model: str, tmp_path: Path) -> None:
    other: Any = AutoTokenizer.from_pretrained(model)
    construct(model, tmp_path, processing_class=other)  # its own, loaded again
    other.add_tokens(["<more>"])
    with pytest.raises(ConfigError, match="processing_class has another vocabulary"):
        construct(model, tmp_path, processing_class=other)
    ends: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(model, eos_token="<bos>")
    with pytest.raises(ConfigError, match="processing_class ends with token 2"):
        construct(model, tmp_path, processing_class=ends)


@over(
    ("variable", "value"),
    [("ACCELERATE_MIXED_PRECISION", "bf16"), ("ACCELERATE_DYNAMO_BACKEND", "inductor")],
)
def test_what_accelerate_s_environment_asks_for_is_not_done_unsaid(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=f"{variable}={value}"):
        construct(model, tmp_path)
