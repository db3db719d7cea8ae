"""The distance of a draft from its verifier, and a student that shortens it. About 10 s (torch)."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from gfcr.speculation.base import Law
from gfcr.speculation.learner import Course
from gfcr.speculation.lessons import Example
from gfcr.train.draft_learner import Student, collate, divergence
from tests.cases import over
from tests.integration.tiny_model import tiny_qwen3

VOCAB = 20
CPU = torch.device("cpu")


class Table(torch.nn.Module):
    """A draft whose logits after each token are a row of a table."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.nn.Parameter(torch.randn(VOCAB, VOCAB, generator=generator))

    def forward(self, *, input_ids: torch.Tensor, use_cache: bool) -> SimpleNamespace:
        return SimpleNamespace(logits=self.table[input_ids])


def teacher(rows: int, *, seed: int = 1, m: int = VOCAB) -> tuple[np.ndarray, Law]:
    """Random distributions, and their record of the `m` likeliest tokens."""
    p = np.random.default_rng(seed).dirichlet(np.ones(VOCAB), size=rows).astype(np.float32)
    ids = np.argsort(-p, axis=1)[:, :m].astype(np.int32)
    return p, Law(ids_TM=ids, probs_TM=np.take_along_axis(p, ids, axis=1))


def example(tokens: list[int], *, law: Law | None, weight: float = 1.0, t: float = 1.0) -> Example:
    return Example(
        tokens_T=np.array(tokens, np.int32), prompt_length=2, temperature=t, law=law, weight=weight
    )


def draft_q(model: Table, tokens: list[int], *, t: float = 1.0) -> np.ndarray:
    rows = model.table[torch.tensor(tokens[1:-1])] / t
    return rows.softmax(-1).detach().numpy()


@over("t", [1.0, 0.5])
def test_with_whole_records_it_is_the_mean_forward_divergence(t: float) -> None:
    model, tokens = Table(), [3, 5, 7, 2, 9]
    p, law = teacher(3)
    q = draft_q(model, tokens, t=t)
    loss = divergence(model, collate([example(tokens, law=law, t=t)], device=CPU), rejected=1.0)
    assert loss.item() == pytest.approx(float((p * np.log(p / q)).sum(1).mean()), rel=1e-3)


def test_tokens_that_are_not_recorded_count_as_one() -> None:
    model, tokens = Table(), [3, 5, 7, 2, 9]
    p, law = teacher(3, m=4)
    q = draft_q(model, tokens)
    held_p, held_q = (np.take_along_axis(d, law.ids_TM, axis=1) for d in (p, q))
    rest_p, rest_q = 1 - held_p.sum(1), 1 - held_q.sum(1)
    expected = (held_p * np.log(held_p / held_q)).sum(1) + rest_p * np.log(rest_p / rest_q)
    loss = divergence(model, collate([example(tokens, law=law)], device=CPU), rejected=1.0)
    assert loss.item() == pytest.approx(float(expected.mean()), rel=1e-3)


def test_rejections_weigh_as_often_as_they_are_expected() -> None:
    model, tokens = Table(), [3, 5, 7, 2, 9]
    p, law = teacher(3)
    q = draft_q(model, tokens)
    accepted = np.minimum(p, q).sum(1)
    terms = (p * np.log(p / q)).sum(1)
    for rejected in (0.0, 0.3, 4.0):
        loss = divergence(model, collate([example(tokens, law=law)], device=CPU), rejected=rejected)
        expected = ((accepted + rejected * (1 - accepted)) * terms).mean()
        assert loss.item() == pytest.approx(float(expected), rel=1e-3)


def test_samples_give_the_same_gradient_in_expectation() -> None:
    """Cross-entropy over all next tokens, each as often as the verifier samples it."""
    p, law = teacher(1)
    exact, sampled = Table(), Table()
    known = [example([3, 5, token], law=law) for token in range(VOCAB)]
    drawn = [example([3, 5, token], law=None, weight=float(p[0, token])) for token in range(VOCAB)]
    divergence(exact, collate(known, device=CPU), rejected=1.0).backward()
    divergence(sampled, collate(drawn, device=CPU), rejected=1.0).backward()
    assert exact.table.grad is not None and sampled.table.grad is not None
    assert torch.allclose(exact.table.grad, sampled.table.grad, atol=1e-5)


def test_padding_and_prompts_do_not_count_and_weights_do() -> None:
    model = Table()
    (_, short), (_, long) = teacher(2, seed=2), teacher(6, seed=3)
    one, other = [3, 5, 7, 2], [3, 5, 1, 1, 2, 3, 4, 5]

    def loss(*examples: Example) -> float:
        return divergence(model, collate(examples, device=CPU), rejected=1.0).item()

    alone = loss(example(one, law=short)), loss(example(other, law=long))
    both = loss(example(one, law=short, weight=0.5), example(other, law=long))
    assert both == pytest.approx((0.5 * 2 * alone[0] + 6 * alone[1]) / (0.5 * 2 + 6), rel=1e-4)


def course(folder: Path, **changes: object) -> Course:
    values = {"steps": 30, "lr": 3e-3, "pool": 10_000, "rejected": 1.0, "threads": 1}
    return Course(model=str(folder), **{**values, **changes})  # type: ignore[arg-type]


def lesson(seed: int) -> list[Example]:
    rng = np.random.default_rng(seed)
    _, law = teacher(1, seed=9)
    made: list[Example] = []
    for _ in range(16):
        tokens = rng.integers(2, VOCAB, 10).tolist()
        ids, probs = (np.repeat(a, 8, axis=0) for a in (law.ids_TM, law.probs_TM))
        made.append(example(tokens, law=Law(ids_TM=ids, probs_TM=probs)))
    return made


def test_a_student_comes_nearer_and_continues_where_it_was_saved(tmp_path: Path) -> None:
    tiny_qwen3(tmp_path / "draft", hidden=32, layers=1)
    student = Student(course(tmp_path / "draft"))
    student.add(lesson(0))
    first, second = student.learn(), student.learn()
    assert second["loss"] < 0.5 * first["loss"] and first["tokens"] > 0
    student.save(tmp_path, name="learnt-2")
    again = Student(course(tmp_path / "draft"))
    again.continue_from(
        str(tmp_path / "learnt-2.safetensors"), optimizer=str(tmp_path / "learnt-2.optimizer")
    )
    for one in (student, again):
        one._rng.seed(5)
        one._pool.clear()
        one.add(lesson(1))
    assert again.learn()["loss"] == pytest.approx(student.learn()["loss"], rel=1e-5)


def test_the_pool_keeps_the_newest_tokens(tmp_path: Path) -> None:
    tiny_qwen3(tmp_path, hidden=32, layers=1)
    student = Student(course(tmp_path, pool=100))
    for seed in range(3):
        student.add(lesson(seed))
    assert sum(len(e.tokens_T) for e in student._pool) <= 100
    newest = lesson(2)[-1].tokens_T
    assert np.array_equal(student._pool[-1].tokens_T, newest)
