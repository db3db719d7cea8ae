"""The audit on toy engines: exact ones pass, planted biases and wrong rules are found. About 40 s.

Fewer tokens than by default, with larger biases to match; the whole is
`python -m tests.campaign.audits`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from gfcr.audit import checks, features
from gfcr.audit.asked import Asked, Prompts
from gfcr.audit.judge import audit_cell
from gfcr.audit.kept import Gathered
from gfcr.audit.shifts import TILTS
from gfcr.certificate.cell import Cell, Verdict
from gfcr.certificate.settings import SETTINGS
from gfcr.engine.base import Delta
from gfcr.engine.fake import Fake, FakeEngine
from gfcr.errors import EngineError
from gfcr.types import Sampling
from tests.campaign import audits
from tests.campaign.audits import Trial
from tests.campaign.toy import END, ToyEngine, ToyModel, ToyTarget, greedy_drafts
from tests.sample import sample

SMALL = 8_000


@cache
def world() -> tuple[ToyModel, Prompts, dict[str, Trial]]:
    model, prompts = audits.toy()
    return model, prompts, {t.name: t for t in audits.trials(model)}


def audit(name: str, *, seed: int = 0, samples: int = SMALL) -> Cell:
    model, prompts, trials = world()
    return audits.one(trials[name], model=model, prompts=prompts, seed=seed, samples=samples)


def cell(engine: ToyEngine, *, setting: str = "t1", samples: int = SMALL, **told: Any) -> Cell:
    model, prompts, _ = world()
    asked = Asked(
        target=ToyTarget(model),
        setting=SETTINGS[setting],
        prompts=prompts,
        drafter="toy" if engine.drafter is not None else "none",
        drafts=engine.drafts if engine.drafter is not None else None,
        samples=samples,
        **told,
    )
    return audit_cell(engine, asked=asked)


def asymptotic(found: Cell) -> list[float]:
    """P-values that are uniform under an exact engine; those of the scan are bounds."""
    return [p for family, made in found.tests.items() if family != "scan" for p in made.values()]


EXACT = ("exact", "exact, sampled drafts", "exact, greedy drafts", "SPEC-RL made exact")


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.parametrize("name", sample(EXACT, always=["SPEC-RL made exact"]))
def test_exact_engines_are_not_called_biased(name: str) -> None:
    found = [audit(name, seed=seed, samples=SMALL // 2) for seed in range(4)]
    assert Verdict.BIASED not in {c.verdict for c in found}
    # Nulls are right, not just wide. The p-values of one audit are correlated: bounds are loose.
    p = np.array([v for c in found for v in asymptotic(c)])
    assert (p < 0.1).mean() < 0.2 and 0.25 < (p < 0.5).mean() < 0.75


@pytest.mark.whole
def test_a_full_sample_of_an_exact_engine_is_lossless() -> None:
    found = audit("exact, greedy drafts", samples=300_000)
    assert found.verdict is Verdict.LOSSLESS and found.power >= 0.99
    assert 0 < found.accepted < found.drafted and found.speculated > 0.5 * found.tokens


@pytest.mark.whole
@pytest.mark.parametrize("name", sample(TILTS, always=["from_top"]))
def test_a_one_percent_bias_is_found_at_the_default_sample_size(name: str) -> None:
    assert audit(f"1% {name}", samples=300_000).verdict is Verdict.BIASED


def test_the_missing_number_goes_down_from_command_to_command(tmp_path: Path) -> None:
    """One law everywhere: power depends on the number of tokens, not on which they are."""
    law = np.full((8, 8, 8), 1 / 7)
    law[..., END] = 0
    with np.errstate(divide="ignore"):
        target = ToyTarget(ToyModel(np.log(law)))
    asked = Asked(
        target=target,
        setting=replace(SETTINGS["t1"], distance=0.1),
        prompts=Prompts(prompts=[(2, 3), (4, 5)], max_tokens=32, repeats=4, tokens=256),
        level=1e-9,
        seconds=0,
        kept=tmp_path / "t1.pickle",
    )
    cells = [audit_cell(ToyEngine(law=law, seed=i), asked=asked) for i in range(3)]
    assert [c.tokens for c in cells] == [512, 768, 1024]
    assert [c.level for c in cells] == pytest.approx([1e-9, 1e-9 / 4, 1e-9 / 9])
    missing = [c.wanted - c.tokens for c in cells]
    assert missing[0] > missing[1] > missing[2] > 0
    assert all(f"about {m:,} more" in c.reason for m, c in zip(missing, cells, strict=True))
    enough = replace(asked, samples=12_000, seconds=np.inf)
    assert audit_cell(ToyEngine(law=law, seed=9), asked=enough).verdict is Verdict.LOSSLESS
    assert not list(tmp_path.iterdir())


def test_a_number_that_was_stated_grows_only_where_it_did_not_suffice() -> None:
    gathered, stated = Gathered(tokens=100), list[int]()
    for estimate in (900, 0, 1_200, 800, 950, 2_000, 2_500):
        gathered.looked(power=0.5, wanted=estimate)
        stated.append(gathered.wanted)
        gathered.tokens += 200
    assert stated == [900, 900, 900, 800, 950, 2_000, 2_000]


RULES = [f"no residual after 100% of rejections, {how} drafts" for how in ("sampled", "greedy")]


@pytest.mark.whole
@pytest.mark.parametrize("name", sample(RULES, always=RULES[:1]))
def test_a_rule_without_residual_is_found(name: str) -> None:
    assert audit(name, samples=60_000).verdict is Verdict.BIASED


RELEASED = ["SPEC-RL as released", "SPEC-RL as released, one update"]


@pytest.mark.whole
@pytest.mark.parametrize("name", sample(RELEASED, always=RELEASED[:1]))
def test_the_released_rule_of_spec_rl_is_found(name: str) -> None:
    assert audit(name, samples=150_000).verdict is Verdict.BIASED


@pytest.mark.whole
@pytest.mark.parametrize(
    "setting",
    sample(["t0.7", "top_p0.9", "top_k5", "min_p0.05", "batch8"], always=["batch8"]),
)
def test_speculation_under_each_setting_is_judged_by_its_law(setting: str) -> None:
    law = world()[0].law(sampling=SETTINGS[setting].sampling)
    drafter = greedy_drafts(law)
    assert cell(ToyEngine(law=law, drafter=drafter), setting=setting).verdict is not Verdict.BIASED
    wrong = ToyEngine(law=world()[0].law(sampling=Sampling(temperature=1.1)), drafter=drafter)
    assert cell(wrong, setting=setting).verdict is Verdict.BIASED


@pytest.mark.slow
def test_one_impossible_token_decides() -> None:
    law = world()[0].law(sampling=Sampling())
    stray = np.array(law)
    stray[..., 0] = 2e-4  # the target never emits the padding token
    found = cell(ToyEngine(law=stray / stray.sum(-1, keepdims=True)))
    assert found.verdict is Verdict.BIASED and found.impossible > 0 and found.p_value == 0


@pytest.mark.slow
def test_too_few_tokens_prove_nothing() -> None:
    found = audit("exact", samples=500)
    assert found.verdict is Verdict.INCONCLUSIVE and found.power < 0.99


@pytest.mark.slow
def test_a_drafter_that_never_drafts_proves_nothing() -> None:
    law = world()[0].law(sampling=Sampling())
    engine = ToyEngine(law=law, drafter=greedy_drafts(law), length=0)
    model, prompts, _ = world()
    asked = Asked(
        target=ToyTarget(model),
        setting=SETTINGS["t1"],
        prompts=prompts,
        drafter="toy",
        samples=SMALL,
    )
    found = audit_cell(engine, asked=asked)
    assert found.verdict is Verdict.INCONCLUSIVE and "never drafted" in found.reason


@dataclass
class _Fussy(ToyEngine):
    """Turns every request at another temperature than 1 down, in the step after it was sent."""

    steps: int = 10**9
    """That it makes before it fails."""

    def step(self) -> Sequence[Delta]:
        for name, running in self._running.items():
            if running.request.sampling.temperature != 1:
                del self._running[name]
                raise EngineError("another temperature")
        if self._stats.forward_passes >= self.steps:
            raise EngineError("out of memory")
        return super().step()

    def abort(self, request_ids: Iterable[str]) -> None:
        for name in [*request_ids]:
            self._running.pop(name, None)


def test_a_setting_that_is_refused_leaves_nothing_to_the_next() -> None:
    engine = _Fussy(law=world()[0].law(sampling=Sampling()))
    assert cell(engine, setting="t0.7", samples=100).refused
    assert not cell(engine, samples=100).refused


def test_an_engine_that_fails_after_some_tokens_has_refused_nothing() -> None:
    engine = _Fussy(law=world()[0].law(sampling=Sampling()), steps=9)
    with pytest.raises(EngineError, match="out of memory"):
        cell(engine, samples=100)


def test_sums_that_few_unlikely_tokens_carry_decide_nothing() -> None:
    """Of n laws that are nearly sure: p-values against the exact probability of as many others."""
    chance, many = 1e-3, 0
    for num, hits in ((500, range(1, 6)), (50_000, range(50, 86, 5))):
        law = np.full((num, 21), chance / 20)
        law[:, 0] = 1 - chance
        for hit in hits:
            tokens = (np.arange(num) < hit).astype(np.int32)
            found = features.reduce(law, tokens, cells={}, seed=0)
            if check := checks.surprise("", found, mask=np.ones(num, np.bool_)):
                many += 1
                assert check.p_value > stats.binom.sf(hit - 1, num, chance) / 10, (num, hit)
    assert many == 8, "of many tokens"
    for expected, hits in ((0.1, range(1, 4)), (2, range(3, 10)), (30, range(31, 60, 4))):
        num, law = 10_000, np.array([0.5, 0.3, 0.2 - expected / 10_000, expected / 10_000])
        for hit in hits:
            counts = [num // 2, num - hit - num // 2 - num // 5, num // 5]
            cells = features.Partition(
                hit_N=np.repeat(np.arange(4, dtype=np.int32), [*counts, hit]),
                mass_NK=np.tile(law, (num, 1)),
            )
            check = checks.cells("", cells, mask=np.ones(num, np.bool_))
            assert check and check.p_value > stats.binom.sf(hit - 1, num, law[3]) / 10, (law, hit)
    prompts = Prompts(prompts=[(2, 3), (4, 5)], max_tokens=32, tokens=2_000)
    for chance, leans in ((1e-3, False), (0.1, True)):
        law = np.full((8, 8, 8), chance / 7)
        law[..., 4] = 1 - chance
        target, older = (ToyTarget(ToyModel(t * np.log(law / (1 - chance)))) for t in (1, 0.1))
        asked = Asked(target=target, proposal=older, setting=SETTINGS["t1"], prompts=prompts)
        made = audit_cell(ToyEngine(law=law), asked=replace(asked, samples=4_000)).tests["law"]
        assert ("towards the drafter" in made) == leans


@pytest.mark.whole
def test_requests_that_share_their_randomness_are_found() -> None:
    found = audit("one randomness for all requests")
    assert found.verdict is Verdict.BIASED
    assert found.tests["dependence"]["request to request"] < 1e-9


@pytest.mark.slow
def test_greedy_tokens_must_be_the_argmax() -> None:
    model, _, _ = world()
    best = greedy_drafts(model.law(sampling=Sampling()))
    right = cell(ToyEngine(law=best, drafter=best), setting="greedy")
    assert right.verdict is Verdict.LOSSLESS and right.accepted > 0
    flat = 0.99 * best + 0.01 * model.law(sampling=Sampling())
    assert cell(ToyEngine(law=flat), setting="greedy").verdict is Verdict.BIASED


@pytest.mark.whole
@pytest.mark.slow
def test_the_fake_engine_is_lossless_by_its_own_law() -> None:
    config = Fake(mean_length=30)
    model = ToyModel.of_fake(config, seed=3)
    asked = Asked(
        target=ToyTarget(model),
        setting=SETTINGS["top_p0.9"],
        prompts=world()[1],
        samples=8_000,
    )
    found = audit_cell(FakeEngine(config, seed=3), asked=asked)
    assert found.verdict is not Verdict.BIASED and found.tokens > 8_000
