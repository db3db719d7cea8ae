"""The feed between a source and a trainer: what is asked when, and that every row weighs the same.

The trainer is a stand-in with the calls of TRL's, which `tests/integration/test_trl_seam.py` has.
"""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import PrinterCallback

from gfcr.correction.base import Corrected, Correction
from gfcr.errors import ConfigError, TrainingError
from gfcr.train import checkpoint
from gfcr.train.base import Steps, TrainJob
from gfcr.train.seam import Feed, SeamMixin
from gfcr.types import Loss, Sampling
from tests.cases import over
from tests.unit.train.stand_in import VOCAB, Source, Trainer, sample

FOUR = [
    sample(i, length=n, advantage=a) for i, (n, a) in enumerate([(2, 1), (3, -1), (4, 2), (9, 3)])
]


def feed(
    source: Source,
    *,
    folder: Path = Path("none"),
    count: int = 2,
    every: int | None = None,
    parts: int = 1,
    times: int = 1,
    **job: Any,
) -> Feed:
    asked = {"model": "m", "loss": Loss(), "seed": 0, "folder": folder, **job}
    return Feed(
        TrainJob(source=source, **asked),
        steps=Steps(micro_batches=count, mini_batches=parts, iterations=times),
        save_every=every,
        keep_checkpoints=1,
    )


def taken(made: Feed, trainer: Trainer, *, num: int) -> list[dict[str, Any]]:
    return [made.next_inputs(trainer) for _ in range(num)]


def loss(value: float) -> torch.Tensor:
    return torch.tensor(value, requires_grad=True) * 1.0


# ---------------------------------------------------------------- an update begins


def test_an_update_begins_with_the_policy_then_a_batch_and_lasts_for_its_micro_batches() -> None:
    source, trainer = Source([FOUR, FOUR[:2]]), Trainer()
    made = feed(source)
    taken(made, trainer, num=2)
    assert source.diary == [("sync", ["table"], 0), "batch"]
    trainer.state.global_step = 1
    taken(made, trainer, num=1)
    assert source.diary[2:] == [("sync", ["table"], 1), "batch"]
    made.sync(trainer.model, version=1)
    assert len(source.diary) == 4, "the engine has this version"


def test_only_the_policy_that_training_starts_from_is_looked_at() -> None:
    source, broken = Source(), nn.Linear(1, 1)
    nn.init.constant_(broken.weight, float("nan"))
    made = feed(source)
    with pytest.raises(TrainingError, match=r"^update 3: a weight is not finite"):
        made.sync(broken, version=3)
    assert not source.diary
    made.sync(nn.Linear(1, 1), version=3)
    made.sync(broken, version=4)  # those after it were, when their update was made
    assert [version for _, _, version in source.diary] == [3, 4]


def test_an_update_of_several_steps_is_one_to_the_source() -> None:
    """Two iterations over two parts of two passes: eight passes, four steps."""
    source, trainer = Source([FOUR, FOUR]), Trainer()
    made = feed(source, count=2, parts=2, times=2)
    before = trainer.model.table.detach().clone()
    found: list[Any] = []
    for step in range(4):
        found += taken(made, trainer, num=2)
        assert len(made._passes) == 0 and made._tokens == sum(
            int(i["tool_mask"].sum()) for i in found[-2:]
        )
        made._sums += 1
        trainer.model.table.data[step] += torch.arange(VOCAB)
        trainer.state.global_step = step + 1
        logged(made, trainer)
        assert len(source.reported) == (step == 3)
    assert source.diary == [("sync", ["table"], 0), "batch", ("updated", 1)]
    rows = [tuple(i["completion_mask"].sum(1).tolist()) for i in found]
    assert rows[:4] == rows[4:] and sorted(sum(rows[:4], ())) == [2, 3, 4, 9]
    assert all(int(i["num_items_in_batch"]) == 18 for i in found), "TRL divides by the parts"
    held = [i["old_per_token_logps"] for i in found]
    trainer.model.table.data, trainer.state.global_step = before, 0
    now = feed(Source([FOUR]), count=2, parts=2, times=2)
    again = [i["old_per_token_logps"] for i in taken(now, trainer, num=2)]
    assert all(torch.equal(a, b) for a, b in zip(held[4:6], again, strict=True))
    trainer.state.global_step = 4
    taken(made, trainer, num=2)
    assert source.diary[3:] == [("sync", ["table"], 1), "batch"]
    other = [tuple(i["completion_mask"].sum(1).tolist()) for i in taken(made, trainer, num=2)]
    assert made._tokens == sum(map(sum, other))


def test_parts_without_samples_take_no_step_and_the_others_do() -> None:
    made, trainer = feed(Source([FOUR[:1]]), count=2, parts=2), Trainer()
    skipped: list[bool] = []
    for _ in range(2):
        taken(made, trainer, num=2)
        trainer.model.table.grad = torch.ones_like(trainer.model.table)
        ended(made, trainer)
        skipped.append(trainer.model.table.grad is None)
    assert sorted(skipped) == [False, True]
    trainer.state.global_step, source = 2, made._job.source
    made._sums += 1
    logged(made, trainer)
    assert source.reported[0]["skipped"] == 0


def test_figures_of_the_policy_are_of_the_passes_before_it_moves() -> None:
    made, trainer = feed(Source([FOUR]), count=2, times=2), Trainer()
    for _ in range(2):
        taken(made, trainer, num=1)
        observed(made, trainer)
    first = made._sums.clone()
    assert first[-1] == 18
    taken(made, trainer, num=1)
    observed(made, trainer)
    assert torch.equal(made._sums, first)


@over(
    ("rule", "even"),
    [
        (Loss(aggregation="grpo"), True),
        (Loss(aggregation="dr_grpo"), True),
        (Loss(aggregation="dapo"), False),
        (Loss(estimator="rloo"), True),
        (Loss(estimator="rloo", aggregation="grpo"), True),
    ],
)
def test_trl_s_mean_of_means_weighs_every_row_the_same(rule: Loss, even: bool) -> None:
    source, trainer = Source([FOUR]), Trainer()
    made = feed(source, loss=rule, count=2)
    found, weights = list[Any](), list[float]()
    for rows in (3, 1):
        found += [inputs := made.next_inputs(trainer)]
        assert len(inputs["prompt_ids"]) == rows
        advantages_B = inputs["advantages"].reshape(rows, -1)[:, 0]
        weights += [made.computed(a / rows / 2, logged={}).item() for a in advantages_B]
    wanted = [1, -1, 2, 3]
    if even:
        assert weights == pytest.approx([a / 4 for a in wanted])
    else:  # divided by the tokens of the whole update instead
        assert [int(inputs["num_items_in_batch"]) for inputs in found] == [18, 18]
        assert weights == pytest.approx([1 / 6, -1 / 6, 2 / 6, 3 / 2])


def test_pairs_weigh_the_same_and_stay_together() -> None:
    samples = [
        sample(2 * g + i, length=2 + 5 * (g == 2), advantage=a, group=f"g{g}")
        for g in range(3)
        for i, a in enumerate((1.0, -1.0))
    ]
    source, trainer = Source([samples, []]), Trainer()
    made = feed(source, loss=Loss(estimator="dpo"), count=2)
    seen = []
    for _ in range(2):
        inputs = made.next_inputs(trainer)
        assert inputs.keys() == {"input_ids", "attention_mask", "completion_mask"}
        seen.append((len(inputs["input_ids"]), made.computed(loss(1.0), logged={}).item()))
    # Means over 2 pairs and over 1, halved by TRL: each pair a third.
    assert seen == [(4, pytest.approx(4 / 3)), (2, pytest.approx(2 / 3))]
    first, second = (made._passes[i].samples for i in (0, 1))
    assert [s.advantage_T[0] for s in first] == [1, 1, -1, -1]
    assert [s.rollout.group_id for s in second] == ["g2", "g2"]
    inputs = taken(made, trainer, num=2)
    assert [len(i["input_ids"]) for i in inputs] == [2, 2] and not inputs[0][
        "completion_mask"
    ].any()


def test_one_pair_weighs_one_whichever_micro_batch_it_is_in() -> None:
    pair = [sample(i, length=2, advantage=a, group="g") for i, a in enumerate((1.0, -1.0))]
    made, trainer = feed(Source([pair]), loss=Loss(estimator="dpo"), count=2), Trainer()
    weights: list[float] = []
    for _ in range(2):
        made.next_inputs(trainer)
        weights.append(made.computed(loss(1.0), logged={}).item())
    assert sorted(weights) == [0, 2]


@over("estimator", ["grpo", "rloo", "sft", "dpo"])
def test_without_samples_there_are_as_many_passes_that_weigh_nothing(estimator: Any) -> None:
    made, trainer = feed(Source([[]]), loss=Loss(estimator=estimator), count=3), Trainer()
    for inputs in taken(made, trainer, num=3):
        if "advantages" in inputs:
            assert not inputs["advantages"].any()
    assert not made._queue and not trainer.control.should_training_stop


def test_a_source_that_ends_or_a_run_told_to_stop_ends_training() -> None:
    source, trainer = Source([None]), Trainer()
    taken(feed(source), trainer, num=2)
    assert trainer.control.should_training_stop is True and source.diary[-1] == "batch"
    source, trainer = Source(), Trainer()
    taken(feed(source, should_stop=lambda: True), trainer, num=2)
    assert trainer.control.should_training_stop is True and not source.diary


class Drops(Correction):
    """Masks all of the first rollout and the first token of the others; halves the weights."""

    seen = 0

    def correct(self, update: Any) -> Any:
        self.asked, self.at = update, time.perf_counter()
        self.seen += len(update)
        masks = [u.rollout.mask_T.copy() for u in update]
        masks[0][:] = False
        for mask_T in masks[1:]:
            mask_T[0] = False
        return [Corrected(weight=0.5, mask_T=mask_T) for mask_T in masks]

    def metrics(self) -> Any:
        return {"seen": float(self.seen)}


def test_a_correction_is_asked_of_what_is_trainable_and_what_it_masks_is_reported() -> None:
    by, trainer = Drops(), Trainer()
    samples = [sample(0, length=3, masked=[0, 1, 2]), *FOUR[1:3]]
    source = Source([samples])
    trainer.state.global_step = 5

    def record(*, made: Any, update: int) -> None:
        source.diary.append((update, {n: (w.tolist(), m.tolist()) for n, (w, m) in made.items()}))

    found = taken(feed(source, correction=by, count=2, record=record), trainer, num=2)
    assert [u.rollout.id for u in by.asked] == ["g/1", "g/2"] and by.asked[0].version == 5
    kept = {"g/1": [False] * 3, "g/2": [False, True, True, True]}
    written = {name: ([0.5] * len(mask), mask) for name, mask in kept.items()}
    assert source.diary[-2:] == [(5, written), kept], "before it is learned from"
    assert [len(i["prompt_ids"]) for i in found] == [1, 1]
    rows = [i["advantages"].tolist() for i in found if i["tool_mask"].any()]
    assert rows == [[[0.0, 1.0, 1.0, 1.0]]], "2 rows of 4 passes each: half of 2"


def test_what_a_correction_measured_is_reported_with_its_own_update_the_last_included() -> None:
    source, trainer = Source([FOUR[:2], [], FOUR[:3]]), Trainer()
    fed = feed(source, correction=(by := Drops()), count=2)
    for update in range(3):
        trainer.state.global_step = update
        taken(fed, trainer, num=2)
        trainer.state.global_step = update + 1
        fed._sums += 1.0  # as if the model had been asked
        logs = {"loss": 0.0, "learning_rate": 0.1, "grad_norm": 1.0}
        fed.on_log(None, trainer.state, None, logs=logs)
    assert [m.get("correction/seen") for m in source.reported] == [2.0, None, 5.0]
    assert 0 < fed._ready_at < by.at, "its time is of training"


# ---------------------------------------------------------------- passes


class Base:
    """A trainer whose loss is what it is called with."""

    def __init__(self) -> None:
        self._metrics = {"train": {}}

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        self.given = (model.training, inputs, args, kwargs)
        return loss(3.0)


class Seam(SeamMixin, Base):
    pass


def test_the_feed_gives_the_inputs_and_sees_the_losses_of_training_alone() -> None:
    seam, made = Seam(), feed(Source([FOUR]))
    trainer = Trainer()
    seam.feed = made
    for name, value in vars(trainer).items():
        if name != "feed":
            setattr(seam, name, value)
    inputs: Any = seam._prepare_inputs("a placeholder")
    assert inputs["completion_ids"].shape == (3, 4)
    given = {"num_items_in_batch": 5, "return_outputs": False}
    assert float(seam.compute_loss(SimpleNamespace(training=False), inputs, 1, **given)) == 3.0
    assert not made._passes and seam.given == (False, inputs, (1,), given)
    assert float(seam.compute_loss(SimpleNamespace(training=True), inputs, 1, **given)) == 3.0
    assert len(made._passes) == 1 and seam.given == (True, inputs, (1,), given)


@pytest.mark.parametrize(("given", "tokens"), [(None, 9.0), (123, 18.0)])
def test_sft_divides_by_the_update_s_tokens(given: int | None, tokens: float) -> None:
    ones = [sample(s.rollout.tokens_T[0], length=len(s.rollout)) for s in FOUR]
    made, trainer = feed(Source([ones]), loss=Loss(estimator="sft"), count=2), Trainer()
    taken(made, trainer, num=1)
    found = made.counted({"num_items_in_batch": given, "other": 1})
    assert found.keys() == {"num_items_in_batch", "other"} and found["other"] == 1
    assert isinstance(found["num_items_in_batch"], torch.Tensor)
    assert float(found["num_items_in_batch"]) == tokens
    assert float(made.counted({})["num_items_in_batch"]) == 9.0
    plain = feed(Source()).counted({"num_items_in_batch": given})
    assert plain == {"num_items_in_batch": given}


def test_a_loss_is_kept_without_its_graph_with_its_rollouts() -> None:
    made, trainer = feed(Source([FOUR])), Trainer()
    taken(made, trainer, num=1)
    given = loss(2.5)
    assert made.computed(given, logged={}) is given
    (kept,) = made._passes
    assert float(kept.loss) == 2.5 and not kept.loss.requires_grad
    assert [s.rollout.id for s in kept.samples] == ["g/0", "g/1", "g/2"]


# ---------------------------------------------------------------- an update ends


def ended(made: Feed, trainer: Trainer, *, fp16: bool = False) -> None:
    args, kwargs = SimpleNamespace(fp16=fp16), {"model": trainer.model}
    made.on_pre_optimizer_step(args, trainer.state, trainer.control, **kwargs)


def test_an_update_that_is_not_finite_is_stopped_under_its_number() -> None:
    made, trainer = feed(Source([FOUR])), Trainer()
    trainer.state.global_step = 6
    taken(made, trainer, num=1)
    made.computed(loss(1.0), logged={})
    ended(made, trainer)
    trainer.model.table.grad = torch.full_like(trainer.model.table, float("inf"))
    with pytest.raises(TrainingError, match=r"^update 7: a gradient \(rollouts g/0, g/1, g/2; "):
        ended(made, trainer)
    ended(made, trainer, fp16=True)  # its scaler finds them
    made.computed(loss(float("nan")), logged={})
    for fp16 in (False, True):
        with pytest.raises(
            TrainingError, match=r"^update 7: the loss of micro-batch 2 of 2 is nan"
        ):
            ended(made, trainer, fp16=fp16)


def test_an_update_without_samples_has_no_gradients_and_says_so() -> None:
    made, trainer = feed(source := Source([[], FOUR])), Trainer()
    taken(made, trainer, num=2)
    made.computed(loss(float("nan")), logged={})
    trainer.model.table.grad = torch.ones_like(trainer.model.table)
    ended(made, trainer)
    assert trainer.model.table.grad is None
    logged(made, trainer)
    assert source.reported[0].keys() == {"sync_s", "learning_rate", "skipped"}
    assert source.reported[0]["skipped"] == 1.0
    taken(made, trainer, num=2)
    made.computed(loss(1.0), logged={})
    ended(made, trainer)  # the pass of the update before is gone
    assert len(made._passes) == 1


def logged(made: Feed, trainer: Trainer, **logs: float) -> None:
    given = {"loss": 0.25, "learning_rate": 0.5, **logs}
    made.on_log(None, trainer.state, trainer.control, logs=given)


def test_the_weights_that_come_of_an_update_are_looked_at_and_its_time_is_taken() -> None:
    made, trainer = feed(source := Source([FOUR])), Trainer()
    taken(made, trainer, num=2)
    observed(made, trainer)
    began = time.perf_counter() - made._ready_at
    passed: dict[str, Any] = {"model": trainer.model}
    passed["optimizer"] = SimpleNamespace(param_groups=[{"lr": 0.5}])
    made.on_optimizer_step(None, trainer.state, trainer.control, **passed)
    logged(made, trainer)
    waited = time.perf_counter() - made._ready_at
    assert began <= source.reported[0]["train_s"] <= waited
    assert 0 <= source.reported[0]["sync_s"] < 60
    nn.init.constant_(trainer.model.table, float("inf"))
    with pytest.raises(TrainingError, match=r"^update 1: a weight"):
        made.on_optimizer_step(None, trainer.state, trainer.control, **passed)


def observed(made: Feed, trainer: Trainer) -> Any:
    """A pass of the policy over a prompt and the completions, as TRL asks it."""
    now: Any = made._now.padded
    ids = torch.cat([now.prompt_ids_BP, now.completion_ids_BT], 1)
    output = trainer.model(ids)
    made._observe(trainer.model, (), output)
    return output, now


def test_what_the_policy_says_of_the_tokens_is_summed_over_those_in_the_loss() -> None:
    samples = [sample(0, length=3), sample(1, length=5, masked=[1, 2]), sample(2, length=9)]
    made, trainer = feed(source := Source([samples, samples])), Trainer()
    wanted = {"entropy": [], "off_policy_ratio": [], "logprob_gap": []}
    said = {"kl": [0.1], "clip_ratio/region_mean": [0.3]}, {"kl": [0.1, 0.5]}
    for logs in said:
        taken(made, trainer, num=1)
        output, now = observed(made, trainer)
        made.computed(loss(1.0), logged={"clip_ratio/region_mean": [0.0], **logs})
        width, mask = now.loss_mask_BT.size(1), now.loss_mask_BT.bool()
        gaps = (output.log_probs[:, -width:] - now.sampled_logps_BT)[mask].tolist()
        wanted["entropy"] += output.entropy[:, -width:][mask].tolist()
        wanted["off_policy_ratio"] += np.exp(gaps).tolist()
        wanted["logprob_gap"] += np.abs(gaps).tolist()
    logged(made, trainer, **{"grad_norm": 2.0, "kl": 9.0, "other": 9.0})
    found = dict(source.reported[0])
    assert len(wanted["entropy"]) == 3 + 3 + 9
    means = {name: pytest.approx(np.mean(values), rel=1e-5) for name, values in wanted.items()}
    weights = np.array(wanted["off_policy_ratio"])
    kish = weights.sum() ** 2 / (weights**2).sum() / len(weights)
    means["effective_share"] = pytest.approx(kish, rel=1e-5)
    # Means over tokens, of which the first pass has 6 and the second 9.
    rest = {"kl": pytest.approx(0.34), "clip_ratio": pytest.approx(0.12)}
    rest |= {"loss": 0.25, "learning_rate": 0.5, "grad_norm": 2.0}
    del found["sync_s"]
    assert found == means | rest | {"skipped": 0.0}
    taken(made, trainer, num=1)
    observed(made, trainer)
    made.computed(loss(1.0), logged={})
    logged(made, trainer)
    again = source.reported[1]["entropy"]
    assert again == pytest.approx(np.mean(wanted["entropy"][:6]), rel=1e-5), "sums begin anew"


def test_passes_and_steps_without_samples_dilute_nothing() -> None:
    """A rollout alone, in four parts of two passes each: one pass of one step has it."""
    made, trainer = feed(source := Source([FOUR[3:]]), parts=4), Trainer()
    held: dict[str, list[float]] = {"reward": [1.0]}
    for _ in range(8):
        taken(made, trainer, num=1)
        observed(made, trainer)
        tokens = sum(len(s.rollout) for s in made._now.samples)
        for name in ("kl", "entropy"):  # TRL's of a filling row are no zeros
            held.setdefault(name, []).append(0.5 if tokens else 0.9)
        made.computed(loss(0.0), logged=held)
    assert held == {"reward": [1.0], "kl": [0.5], "entropy": [0.5]}, "nor does TRL's own log"
    assert not made._skip, "the last step has the gradient whose norm is logged"
    trainer.state.global_step = 4
    logged(made, trainer)
    found = source.reported[0]
    assert found["kl"] == 0.5 and found["loss"] == 4 * 0.25 and found["entropy"] > 0
    # TRL's sft has log-probs at temperature 1, whatever was sampled at.
    moved = {"off_policy_ratio", "effective_share", "logprob_gap"}
    for heat, estimator in ((1.0, "sft"), (0.5, "sft"), (0.5, "grpo")):
        asked: Any = {"loss": Loss(estimator=estimator), "sampling": Sampling(temperature=heat)}
        made, trainer = feed(source := Source([FOUR[:1]]), **asked), Trainer()
        for _ in range(2):
            taken(made, trainer, num=1)
            observed(made, trainer)
        logged(made, trainer)
        assert (moved & source.reported[0].keys() == moved) is ((heat, estimator) != (0.5, "sft"))


def test_passes_that_do_not_train_are_not_counted() -> None:
    made, trainer = feed(Source([FOUR])), Trainer()
    ids = torch.ones(1, 12, dtype=torch.long)
    made._observe(trainer.model, (), trainer.model(ids))  # nothing was fed yet
    taken(made, trainer, num=1)
    with torch.no_grad():
        made._observe(trainer.model, (), trainer.model(ids))
    made._observe(trainer.model, (), SimpleNamespace(logits=ids))
    assert not made._sums.any()


def test_an_update_is_reported_under_its_number_and_a_summary_is_not() -> None:
    made, trainer = feed(source := Source([[]])), Trainer()
    taken(made, trainer, num=2)
    trainer.state.global_step = 1
    for others in ({"train_runtime": 3.0}, {"loss": 3.0}):  # the end's, and a script's own
        made.on_log(None, trainer.state, trainer.control, logs=others)
    assert not source.reported
    logged(made, trainer)
    assert source.diary[-1] == ("updated", 1)
    with pytest.raises(TrainingError, match=r"^update 1: grad_norm is inf"):
        logged(made, trainer, grad_norm=float("inf"))
    assert len(source.reported) == 1


def test_an_update_that_is_not_logged_is_told_of_once() -> None:
    made, trainer = feed(source := Source([FOUR, FOUR]), times=2), Trainer()
    rate = {"lr": 0.5}
    optimizer: Any = SimpleNamespace(param_groups=[rate])
    for step in range(1, 5):
        taken(made, trainer, num=2)
        observed(made, trainer) if step % 2 else None
        passed: dict[str, Any] = {"model": trainer.model, "optimizer": optimizer}
        made.on_optimizer_step(None, trainer.state, trainer.control, **passed)
        rate["lr"] /= 2  # as a schedule does for the next step, before this one's end
        trainer.state.global_step, quiet = step, SimpleNamespace(should_log=step == 3)
        made.on_step_end(None, trainer.state, quiet)
        assert [what for what in source.diary if what[0] == "updated"][-1:] == (
            [("updated", step // 2)] if step > 1 else []
        )
    logged(made, trainer)  # at the end of an epoch
    assert len(source.reported) == 2
    assert {"entropy", "off_policy_ratio"} <= source.reported[1].keys()
    assert source.reported[1]["learning_rate"] == 0.0625 and "loss" not in source.reported[1]


# ---------------------------------------------------------------- a run


@over(("every", "asked"), [(2, [2, 4]), (1, [1, 2, 3, 4]), (None, [])])
def test_checkpoints_are_asked_for_every_so_often(every: int | None, asked: list[int]) -> None:
    made, found = feed(Source(), every=every), []
    for step in (1, 2, 3, 4):
        state = SimpleNamespace(global_step=step)
        control = SimpleNamespace(should_save=False, should_log=True)
        made.on_step_end(None, state, control)
        found += [step] * (control.should_save is True)
    assert found == asked


def test_checkpoints_have_the_number_of_updates_and_come_after_one(tmp_path: Path) -> None:
    made, found = feed(Source(), folder=tmp_path, every=2, times=3), []
    for step in range(1, 13):
        state = SimpleNamespace(global_step=step)
        control = SimpleNamespace(should_save=False, should_log=True)
        made.on_step_end(None, state, control)
        found += [step] * control.should_save
    assert found == [6, 12]
    (tmp_path / "checkpoint-6").mkdir()
    made.on_save(None, SimpleNamespace(global_step=6), None)
    assert [p.name for p in checkpoint.complete(tmp_path)] == ["checkpoint-2"]
    with pytest.raises(ConfigError, match="after step 7, and an update has 3 steps"):
        made.on_save(None, SimpleNamespace(global_step=7), None)


def test_a_trainer_that_saves_by_itself_names_checkpoints_by_itself(tmp_path: Path) -> None:
    made = feed(Source(), folder=tmp_path, times=3)
    made.on_save(None, SimpleNamespace(global_step=6), None)
    assert [p.name for p in checkpoint.complete(tmp_path)] == ["checkpoint-6"]


@over(
    ("every", "stops", "step", "saves"),
    [(5, True, 3, True), (5, False, 3, False), (5, True, 2, False), (None, True, 3, False)],
)
def test_the_last_update_is_saved_unless_it_is(
    tmp_path: Path, every: int | None, stops: bool, step: int, saves: bool
) -> None:
    made = feed(Source(), folder=tmp_path, every=every)
    control = SimpleNamespace(should_training_stop=stops, should_save=False)
    made.on_save(None, SimpleNamespace(global_step=2), control)
    made.on_epoch_end(None, SimpleNamespace(global_step=step), control)
    assert control.should_save is saves


def test_a_checkpoint_holds_the_source_s_memory_and_the_oldest_is_dropped(tmp_path: Path) -> None:
    made = feed(Source(), folder=tmp_path)
    for step in (1, 2):
        made.on_save(None, SimpleNamespace(global_step=step), None)
    assert [p.name for p in checkpoint.complete(tmp_path)] == ["checkpoint-2"]
    assert checkpoint.load(tmp_path / "checkpoint-2") == {"stream": 3}


@over("resume", [None, Path("runs/checkpoint-4")])
def test_a_run_feeds_the_trainer_and_leaves_the_engine_the_last_policy(resume: Path | None) -> None:
    source, trainer = Source([FOUR]), Trainer()
    made = feed(source, every=1)
    printer, other, told = PrinterCallback(), object(), []
    trainer.callbacks = [printer, other]

    def train(**given: Any) -> None:
        told.append((given, trainer.callbacks, trainer.feed, trainer.model._forward_hooks))
        assert len(trainer.model._forward_hooks) == 1
        taken(made, trainer, num=1)
        now: Any = made._now.padded
        trainer.model(torch.cat([now.prompt_ids_BP, now.completion_ids_BT], 1))
        trainer.state.global_step = 4

    trainer.train = train
    made.run(trainer, resume_from=resume)
    ((given, callbacks, fed, _),) = told
    assert given == {"resume_from_checkpoint": str(resume) if resume else None}
    assert callbacks == [other, made] and fed is made
    assert trainer.callbacks == [other] and not trainer.model._forward_hooks
    assert float(made._sums[-1]) == 9, "the pass was seen"
    assert source.diary[-1] == ("sync", ["table"], 4)
    # A run that goes on from its last update has it saved.
    control = SimpleNamespace(should_training_stop=True, should_save=False)
    made.on_epoch_end(None, trainer.state, control)
    assert control.should_save == (resume is None)


def test_a_trainer_that_fails_is_fed_no_more() -> None:
    made, trainer = feed(source := Source()), Trainer()

    def train(**given: Any) -> None:
        raise RuntimeError("out of memory")

    trainer.train = train
    with pytest.raises(RuntimeError, match="out of memory"):
        made.run(trainer, resume_from=None)
    assert not trainer.callbacks and not trainer.model._forward_hooks and not source.diary
