"""SPEC-RL on real vLLM: the exact rule passes the audit, the released one does not. About 30 s."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from vllm.v1.sample import rejection_sampler

from gfcr import strategy as strategies
from gfcr.audit import SETTINGS, Asked, Cell, Prompts, Verdict, audit_cell
from gfcr.audit.sampler import Asking, Sampled, sample
from gfcr.audit.target import ModelTarget, noisy
from gfcr.engine.vllm import Vllm
from gfcr.engine.vllm_drafts import pending
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.pipeline import Pipeline
from gfcr.speculation.spec_rl import SpecRl
from gfcr.stages import Harvest
from gfcr.testing import factories as make
from gfcr.types import Sampling
from tests.integration.tiny_model import VOCAB, tiny_qwen3

pytestmark = pytest.mark.vllm

PROMPTS = Prompts(
    prompts=[tuple(p) for p in np.random.default_rng(0).integers(2, VOCAB, size=(8, 4)).tolist()],
    max_tokens=24,
)
STOCK = rejection_sampler.sample_recovered_tokens


class Floor:
    """An engine with the drafter, the policy that it serves and an older one."""

    def __init__(self, folder: Path, drafter: SpecRl) -> None:
        tiny_qwen3(folder, seed=1, layers=1, eos=None)
        self.drafter, self.step = drafter, 0
        self.engine: VllmEngine = Vllm(kv_cache_gib=0.25, max_running=64).start(
            model=str(folder), seed=0, drafter=drafter
        )
        self.now, self.old = ModelTarget(folder), ModelTarget(noisy(folder, folder=folder / "old"))

    def visit(self, policy: ModelTarget) -> list[Sampled]:
        """A round of prompts as a batch of its own under a policy."""
        self.engine.update_weights(policy.weights(), version=self.step)
        asking = Asking(
            setting=SETTINGS["t1"], prompts=PROMPTS.round(), max_tokens=PROMPTS.max_tokens
        )
        made = sample(self.engine, asking, seed=1000 + self.step)
        self.after(made, sampling=Sampling())
        return made

    def before(
        self, round_: Callable[[], list[Sampled]], *, sampling: Sampling, first: bool
    ) -> None:
        """See `gfcr.audit.memory.Learning`: the older policy's visit."""
        self.visit(self.old)
        self.engine.update_weights(self.now.weights(), version=self.step)

    def after(self, found: Sequence[Sampled], *, sampling: Sampling) -> None:
        """See `gfcr.audit.memory.Learning`."""
        self.drafter.observe(Harvest(step=self.step, groups=(), aborted=()), view=make.view())
        self.step += 1

    def audit(self, *, samples: int) -> Cell:
        asked = Asked(
            target=self.now,
            setting=SETTINGS["t1"],
            prompts=PROMPTS,
            drafter="spec_rl",
            deterministic=False,
            proposal=self.old,
            drafts=lambda: pending(self.engine),
            samples=samples,
        )
        return audit_cell(self.engine, asked=asked, memory=self)


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[SpecRl], Floor]]:
    monkeypatch.setattr("gfcr.audit.asked.ROUND", 6000)
    monkeypatch.setattr("gfcr.audit.target.NOISE", 0.04)
    begun: list[Floor] = []

    def begin(drafter: SpecRl) -> Floor:
        begun.append(Floor(tmp_path, drafter))
        return begun[0]

    yield begin
    for floor in begun:
        floor.engine.close()


@pytest.mark.whole
def test_the_exact_rule_keeps_the_law(
    begin: Callable[[SpecRl], Floor], monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    floor = begin(SpecRl())
    assert rejection_sampler.sample_recovered_tokens is STOCK
    full = floor.audit(samples=12_000 if whole else 6_000)
    follows_the_same_policy(floor)
    reuses_its_rollouts(floor)
    cells = [full]
    width = SpecRl.record
    if whole:
        width = 4
        monkeypatch.setattr(SpecRl, "record", width)
        cells.append(floor.audit(samples=6_000))
    for cell in cells:
        assert cell.verdict is not Verdict.BIASED and not cell.impossible, cell
        assert 0.1 * cell.tokens < cell.accepted < cell.drafted
    made = [r for made in floor.drafter.memory.values() for r in made if r.step == floor.step - 1]
    assert {r.law.probs_TM.shape for r in made} == {(PROMPTS.max_tokens, width)}


def reuses_its_rollouts(floor: Floor) -> None:
    """Through the pipeline, from the second update on prompts that come back."""
    task = make.CoinTask(num_train=4)
    run = Pipeline(
        replace(strategies.load("spec_rl", group_size=4), drafter=floor.drafter),
        engine=floor.engine,
        task=task,
        train=task.problems(make.CODEC).train,
        codec=make.CODEC,
        prompts=4,
        sampling=Sampling(max_tokens=24),
        seed=0,
    )
    made = []
    for version, policy in enumerate((floor.old, floor.now)):
        run.sync(policy.weights(), version=version)
        made.append(run.next_batch())
    scores = [
        s.logprobs_T
        for s in floor.engine.score(
            [[*s.rollout.prompt.tokens, *s.rollout.tokens_T] for s in made[1].samples],
            sampling=Sampling(),
        )
    ]
    run.close()
    assert made[0].metrics["drafter/reused"] == 0 < made[1].metrics["drafter/reused"]
    assert made[1].metrics["drafter/hits"] > 0 < made[1].metrics["drafter/cut"]
    for sample_, score in zip(made[1].samples, scores, strict=True):  # the verifier's, not q's
        got = sample_.rollout.logprobs_T
        np.testing.assert_allclose(got, score[-len(got) :], atol=1e-4)


def follows_the_same_policy(floor: Floor) -> None:
    floor.visit(floor.now)
    before = floor.engine.stats()
    floor.visit(floor.now)
    after = floor.engine.stats()
    assert after.accepted_tokens - before.accepted_tokens == (
        after.drafted_tokens - before.drafted_tokens
    )
    emitted = after.generated_tokens - before.generated_tokens
    assert after.accepted_tokens - before.accepted_tokens > 0.6 * emitted


@pytest.mark.whole
def test_the_released_rule_is_biased_and_vllm_gets_its_own_back(
    begin: Callable[[SpecRl], Floor],
) -> None:
    floor = begin(SpecRl(rule="released"))
    assert rejection_sampler.sample_recovered_tokens is not STOCK
    cell = floor.audit(samples=6_000)
    floor.engine.close()
    assert rejection_sampler.sample_recovered_tokens is STOCK
    assert cell.verdict is Verdict.BIASED and cell.p_value < 1e-9, cell
    assert 0 < cell.accepted < cell.drafted
