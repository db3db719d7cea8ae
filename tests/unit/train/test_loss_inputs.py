"""What each of TRL's losses is given for a micro-batch, and what it cannot take."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch

from gfcr.errors import ConfigError
from gfcr.train.collate import collate
from gfcr.train.loss_inputs import BUILDERS, logps
from gfcr.types import Loss
from tests.unit.train.stand_in import Trainer, sample

CPU = torch.device("cpu")
TEXT = {"prompt_ids", "prompt_mask", "completion_ids", "completion_mask"}
MIXED = [sample(0, length=3, advantage=-2.0), sample(1, length=5, masked=[1, 2])]
PLAIN = [sample(0, length=3, advantage=-2.0), sample(1, length=5)]
OLD = [sample(0, length=3, old=-0.7), sample(1, length=5, old=-0.9)]


def inputs(
    samples: list[Any], *, beta: float = 0.0, moves: bool = False, **loss: Any
) -> dict[str, Any]:
    """Those of the estimator, in an update of 77 tokens."""
    padded, rule = collate(samples, device=CPU), Loss(**loss)
    build = BUILDERS[rule.estimator]
    return build(Trainer(beta=beta), padded, loss=rule, tokens=77, moves=moves)


def same(found: Any, wanted: Any) -> bool:
    return torch.equal(torch.as_tensor(found), torch.as_tensor(wanted))


def test_grpo_has_every_token_s_advantage_and_the_tokens_of_the_update() -> None:
    padded, found = collate(MIXED, device=CPU), inputs(MIXED)
    assert found.keys() == TEXT | {
        *("tool_mask", "advantages", "num_items_in_batch"),
        *("old_per_token_logps", "sampling_per_token_logps"),
    }
    assert same(found["prompt_ids"], padded.prompt_ids_BP)
    assert same(found["prompt_mask"], padded.prompt_mask_BP)
    assert same(found["completion_ids"], padded.completion_ids_BT)
    assert same(found["completion_mask"], padded.completion_mask_BT)
    assert found["tool_mask"].tolist() == [[1, 1, 1, 0, 0], [1, 0, 0, 1, 1]]
    assert found["advantages"].tolist() == [[-2, -2, -2, 0, 0], [1, 0, 0, 1, 1]]
    assert same(found["num_items_in_batch"], 77)
    assert found["old_per_token_logps"] is None
    assert same(found["sampling_per_token_logps"], padded.sampled_logps_BT)


def test_grpo_clips_against_what_was_sampled_with_or_a_correction_took() -> None:
    sampled = collate(MIXED, device=CPU).sampled_logps_BT
    assert same(inputs(MIXED, off_policy="behaviour")["old_per_token_logps"], sampled)
    taken = inputs(OLD)["old_per_token_logps"]
    assert taken.tolist() == pytest.approx(np.array([[-0.7] * 3 + [0] * 2, [-0.9] * 5]))


def test_grpo_clips_against_the_policy_before_an_update_of_several_steps() -> None:
    trainer, padded = Trainer(), collate(MIXED, device=CPU)
    found = inputs(MIXED, moves=True)["old_per_token_logps"]
    assert same(found, logps(trainer, trainer.model, padded)) and not found.requires_grad
    for given, rule in ((OLD, {}), (MIXED, {"off_policy": "behaviour"})):
        told = [inputs(given, moves=m, **rule)["old_per_token_logps"] for m in (True, False)]
        assert same(*told), "what a correction took, or was sampled with, stays"


def test_a_kl_term_has_the_reference_s_log_probs() -> None:
    trainer, padded = Trainer(), collate(MIXED, device=CPU)
    assert "ref_per_token_logps" not in inputs(MIXED)
    found = inputs(MIXED, beta=0.1)["ref_per_token_logps"]
    assert same(found, logps(trainer, trainer.ref_model, padded))
    assert not same(found, logps(trainer, trainer.model, padded))
    assert not found.requires_grad and found.shape == (2, 5)


def test_with_adapters_the_reference_is_the_policy_without_them() -> None:
    trainer, padded = Trainer(beta=0.1), collate(MIXED, device=CPU)
    base, adapted = trainer.ref_model, trainer.model

    @contextmanager
    def without() -> Iterator[None]:
        trainer.model = base
        yield
        trainer.model = adapted

    trainer.ref_model, adapted.disable_adapter = None, without
    rule = {"loss": Loss(), "tokens": 9, "moves": False}
    found = BUILDERS["grpo"](trainer, padded, **rule)["ref_per_token_logps"]
    assert same(found, logps(trainer, base, padded)) and trainer.model is adapted


def test_rloo_has_one_advantage_and_one_log_prob_a_row() -> None:
    trainer, padded = Trainer(), collate(PLAIN, device=CPU)
    found = inputs(PLAIN, estimator="rloo")
    assert found.keys() == TEXT | {"old_logps", "advantages"}
    assert found["advantages"].tolist() == [-2.0, 1.0]
    now_BT = logps(trainer, trainer.model, padded) * padded.completion_mask_BT
    assert same(found["old_logps"], now_BT.sum(1))
    behaviour = inputs(PLAIN, estimator="rloo", off_policy="behaviour")["old_logps"]
    assert behaviour.tolist() == pytest.approx([-0.6, -1.5])
    assert inputs(OLD, estimator="rloo")["old_logps"].tolist() == pytest.approx([-2.1, -4.5])


def test_rows_that_weigh_nothing_are_taken_by_rloo() -> None:
    assert inputs([], estimator="rloo")["advantages"].tolist() == [0.0]


def test_rloo_refuses_what_it_has_no_place_for() -> None:
    with pytest.raises(ConfigError, match="cannot leave environment tokens out of the loss"):
        inputs(MIXED, estimator="rloo")
    uneven = [sample(0, length=3), sample(1, length=3, advantage=[1, 1, 2])]
    with pytest.raises(ConfigError, match="takes one advantage a rollout"):
        inputs(uneven, estimator="rloo")


def test_sft_labels_what_is_in_the_loss() -> None:
    samples = [sample(0, length=3), sample(1, length=5, masked=[1, 2])]
    padded, found = collate(samples, device=CPU), inputs(samples, estimator="sft")
    ids = torch.cat([padded.prompt_ids_BP, padded.completion_ids_BT], 1)
    mask = torch.cat([padded.prompt_mask_BP, padded.completion_mask_BT], 1)
    assert found.keys() == {"input_ids", "attention_mask", "labels"}
    assert same(found["input_ids"], ids) and same(found["attention_mask"], mask)
    width, labels = padded.prompt_ids_BP.size(1), found["labels"]
    assert (labels[:, :width] == -100).all()
    learned = padded.loss_mask_BT.bool()
    assert same(labels[:, width:][learned], padded.completion_ids_BT[learned])
    assert (labels[:, width:][~learned] == -100).all()
    with pytest.raises(ConfigError, match="give the rest the advantage 1"):
        inputs(MIXED, estimator="sft")


def test_dpo_has_completions_marked_and_no_more() -> None:
    padded, found = collate(MIXED, device=CPU), inputs(MIXED, estimator="dpo")
    assert found.keys() == {"input_ids", "attention_mask", "completion_mask"}
    width = padded.prompt_ids_BP.size(1)
    assert not found["completion_mask"][:, :width].any()
    assert same(found["completion_mask"][:, width:], padded.loss_mask_BT)
    assert found["completion_mask"].dtype == torch.long
    assert same(found["attention_mask"][:, width:], padded.completion_mask_BT)


def test_log_probs_are_of_the_completion_alone() -> None:
    trainer, padded = Trainer(), collate(PLAIN[:1], device=CPU)
    ids = torch.cat([padded.prompt_ids_BP, padded.completion_ids_BT], 1)
    every = trainer.model(ids).log_probs
    assert same(logps(trainer, trainer.model, padded), every[:, -3:])
