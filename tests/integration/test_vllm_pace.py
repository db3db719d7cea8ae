"""A drafter's pace on real vLLM: kept, down to nothing and back. About 45 s of CPU time."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import pytest
import torch
from transformers import Qwen3ForCausalLM

from gfcr.engine.base import Delta, Request
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.speculation.auto import Auto
from gfcr.speculation.base import Draft, Drafter, Law, Proposer, Row, Step, Target
from gfcr.speculation.draft_model import DraftModel
from gfcr.speculation.ngram import Ngram
from gfcr.speculation.suffix import Suffix
from gfcr.types import Sampling
from tests.integration.tiny_model import entropy_z, tiny_qwen3
from tests.sample import sample

pytestmark = pytest.mark.vllm

K = 4
LENGTH = 120
RUNNING = 8


@final
@dataclass(kw_only=True)
class Again(Proposer):
    """Proposes what followed the last token at its previous place."""

    ended: list[str] = field(init=False, default_factory=list[str])

    @property
    def max_draft(self) -> int:
        return K

    def finished(self, row: Row, *, law: Law | None) -> None:
        self.ended.append(row.request_id)

    def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
        return [Draft(tokens=_after(row.tokens_T.tolist())) for row in rows]


def _after(tokens: list[int]) -> list[int]:
    places = [i for i, t in enumerate(tokens[:-1]) if t == tokens[-1]]
    return (tokens[places[-1] + 1 :] * K)[:K] if places else []


@final
@dataclass(kw_only=True)
class Scheduled(Drafter):
    """Steers another drafter by the number of the step."""

    drafter: Drafter
    plan: Callable[[int], int] = lambda step: K
    paces: list[int] = field(init=False, default_factory=list[int])
    steps: list[Step] = field(init=False, default_factory=list[Step])

    @property
    def core(self) -> Drafter:
        return self.drafter

    @property
    def max_draft(self) -> int:
        return self.drafter.max_draft

    def check(self, target: Target) -> None:
        self.drafter.check(target)

    def pace(self, *, running: int) -> int:
        self.paces.append(self.plan(len(self.paces)))
        return self.paces[-1]

    def saw(self, step: Step) -> None:
        self.steps.append(step)

    def restart(self, plan: Callable[[int], int]) -> None:
        self.plan, self.paces, self.steps = plan, [], []


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy")
    tiny_qwen3(folder, eos=None)
    return folder


@pytest.fixture(scope="module")
def noisy(policy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The policy with noise on its weights: often right, often wrong."""
    folder = tmp_path_factory.mktemp("draft")
    model = Qwen3ForCausalLM.from_pretrained(policy, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.08 * p.std() * torch.randn(p.shape, generator=generator))
    model.save_pretrained(folder)
    return folder


@contextmanager
def started(policy: Path, drafter: Drafter | None) -> Iterator[VllmEngine]:
    engine = Vllm(kv_cache_gib=0.25, max_running=RUNNING).start(
        model=str(policy), seed=0, drafter=drafter
    )
    try:
        yield engine
    finally:
        engine.close()


def generate(
    engine: VllmEngine, prompts: Sequence[list[int]], *, sampling: Sampling, budget: int | None
) -> list[list[int]]:
    tokens: dict[str, list[int]] = {f"r{i}": [] for i in range(len(prompts))}
    for i, name in enumerate(tokens):
        prompt = tuple(prompts[i])
        engine.submit(
            Request(id=name, tokens=prompt, sampling=sampling, seed=i, draft_budget=budget)
        )
    deltas: Sequence[Delta] = engine.step()
    while deltas:
        for delta in deltas:
            tokens[delta.request_id] += delta.tokens
        deltas = engine.step()
    return list(tokens.values())


def greedy(engine: VllmEngine, *, budget: int | None = None) -> list[list[int]]:
    sampling = Sampling(max_tokens=LENGTH, temperature=0.0)
    return generate(engine, [[2, 3, 4 + i] for i in range(6)], sampling=sampling, budget=budget)


@pytest.fixture(scope="module")
def expected(policy: Path) -> list[list[int]]:
    with started(policy, None) as engine:
        return greedy(engine)


DRAFTERS: dict[str, Callable[[Path], Drafter]] = {
    "ngram": lambda draft: Ngram(draft_length=K, shortest=1),
    "suffix": lambda draft: Suffix(draft_length=K),
    "draft_model": lambda draft: DraftModel(model=str(draft), draft_length=K),
    "ours": lambda draft: Again(),
}
# All, then nothing for a dozen steps, every length, nothing again, all.
PACES = [K] * 6 + [0] * 12 + [1, 2, 3, 4] * 3 + [0] * 4


@pytest.mark.parametrize("name", sample(DRAFTERS, always=["suffix"]))
def test_the_pace_is_kept_and_no_token_changes(
    name: str, policy: Path, noisy: Path, expected: list[list[int]]
) -> None:
    steered = Scheduled(drafter=DRAFTERS[name](noisy))
    with started(policy, steered) as engine:
        steered.restart(lambda step: PACES[step] if step < len(PACES) else K)
        assert greedy(engine) == expected
        # What is verified in a step was drafted at the end of the one before.
        pairs = list(zip(steered.paces, steered.steps[1:], strict=False))
        assert all(s.drafted <= k * s.running for k, s in pairs)
        quiet = [s for k, s in pairs if k == 0]
        assert len(quiet) >= 16 and all(s.emitted == s.running for s in quiet)
        for k in range(1, K + 1):
            assert any(s.drafted > (k - 1) * s.drafts for pace, s in pairs if pace == k)
        late = steered.steps[len(PACES) + 1 :]
        assert sum(s.accepted for s in late) > 0.3 * sum(s.drafted for s in late) > 0
        if isinstance(steered.drafter, DraftModel):
            assert_a_right_cache(steered, expected=expected, agree=agreement(noisy, expected))

        # Three times as many requests as run together, drawn: every step has another length.
        steered.restart(lambda step: step % (K + 1))
        drawn = generate(engine, [[2, 3]] * 24, sampling=Sampling(max_tokens=60), budget=None)
        model = Qwen3ForCausalLM.from_pretrained(policy, dtype=torch.float32)
        assert abs(entropy_z(model, [[2, 3, *tokens] for tokens in drawn], prompt=2)) < 4
        assert {s.running for s in steered.steps} <= set(range(1, RUNNING + 1))

        spent = engine.stats()
        assert spent.decoding_s <= spent.busy_s
        assert (spent.decoding_s > 0) == (spent.undrafted_s > 0) == steered.core.looks_up

        steered.restart(lambda step: K)
        assert greedy(engine, budget=0) == expected
        assert not steered.paces and not steered.steps, "evaluation teaches nothing"
        if isinstance(steered.drafter, Again):  # nor does the warm-up
            assert len(steered.drafter.ended) == 6 + 24 and min(steered.drafter.ended) == "r0"


def agreement(draft: Path, completions: list[list[int]]) -> list[list[bool]]:
    """Whether the draft model's likeliest token is the next one, by transformers."""
    model = Qwen3ForCausalLM.from_pretrained(draft, dtype=torch.float32)
    agree: list[list[bool]] = []
    for i, tokens in enumerate(completions):
        with torch.no_grad():
            logits = model(torch.tensor([[2, 3, 4 + i, *tokens]])).logits[0, 2:-1]
        agree.append((logits.argmax(-1) == torch.tensor(tokens)).tolist())
    return agree


def assert_a_right_cache(
    steered: Scheduled, *, expected: list[list[int]], agree: list[list[bool]]
) -> None:
    """As many drafts are accepted as by a draft model that sees all of the past, step by step."""
    places = [1] * len(expected)
    for pace, step in zip(steered.paces, steered.steps[1:], strict=False):
        if max(places) > LENGTH - K - 1:
            break
        accepted = 0
        for i, place in enumerate(places):
            right = [*agree[i][place : place + pace], False]
            accepted += right.index(False)
            places[i] += right.index(False) + 1
        assert step.accepted == accepted, (step, places)
    assert min(places) > 30


def test_auto_learns_and_no_token_changes(policy: Path, expected: list[list[int]]) -> None:
    steered = Auto(drafter=Again(), hold=3, explore=0.5, explore_least=0.5)
    with started(policy, steered) as engine:
        assert not steered.bandits, "warming up is not told"
        seen: set[int] = set()
        for _ in range(6):
            assert greedy(engine) == expected
            seen |= {k for b in steered.bandits.values() for k in b.seen}
        assert seen == {0, 1, 2, 4}
        assert steered.bandits[8].steps > 50 and steered.metrics()["explored"] > 0
