"""How often the audit errs: exact toy engines called biased, planted biases not found.

python -m tests.campaign.audits --engines 100
"""

import argparse
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from scipy.stats import beta

from gfcr.audit.asked import SAMPLES, Asked, Prompts
from gfcr.audit.judge import audit_cell
from gfcr.audit.law import Laws
from gfcr.audit.shifts import TILTS, Tilt
from gfcr.certificate.cell import DISTANCE, LEVEL, Cell, Verdict
from gfcr.certificate.settings import SETTINGS
from gfcr.engine.fake import Fake
from tests.campaign.faults import DRIFT, Trial, faults
from tests.campaign.toy import END, ToyEngine, ToyModel, ToyTarget, greedy_drafts

UPDATE: Final = {"temperature": 1.0, "noise": 0.1}
"""Of a policy one update old: total variation 0.038, in another direction in every context."""


@final
@dataclass(frozen=True, kw_only=True)
class Tally:
    """What the audit said of a kind."""

    name: str
    exact: bool
    verdicts: Mapping[str, int]
    tokens: float
    """Mean tokens of an audit."""

    @property
    def right(self) -> int:
        """Audits that did not err: exact not called biased, or bias found."""
        biased = self.verdicts[Verdict.BIASED]
        return sum(self.verdicts.values()) - biased if self.exact else biased

    @property
    def at_least(self) -> float:
        """95 % lower confidence limit (Clopper-Pearson) of the share of right verdicts."""
        num = sum(self.verdicts.values())
        return float(beta.ppf(0.05, self.right, num - self.right + 1)) if self.right else 0.0


def toy(*, seed: int = 3) -> tuple[ToyModel, Prompts]:
    """The model and prompts of all trials."""
    model = ToyModel.of_fake(Fake(mean_length=30), seed=seed)
    prompts = np.random.default_rng(seed).integers(4, len(model.logprobs), (32, 4)).tolist()
    return model, Prompts(prompts=[tuple(p) for p in prompts], max_tokens=32)


def trials(model: ToyModel) -> list[Trial]:
    """Exact engines, each planted bias, and SPEC-RL's released rule beside its exact form."""
    law = model.law(sampling=SETTINGS["t1"].sampling)
    old, newer = model.drifted(**DRIFT, seed=1), model.drifted(**UPDATE, seed=1)

    def spec(
        name: str, *, policy: ToyModel, exact: bool, sampled: bool = True, once: bool = False
    ) -> Trial:
        proposed = policy.law(sampling=SETTINGS["t1"].sampling)
        drafter = proposed if sampled else greedy_drafts(proposed)
        return Trial(
            name=name,
            make=lambda seed: ToyEngine(
                law=law, drafter=drafter, no_residual=1.0 - exact, once=once, seed=seed
            ),
            exact=exact,
            drafter="toy",
            deterministic=not sampled,
            policy=policy,
        )

    return [
        Trial(name="exact", make=lambda seed: ToyEngine(law=law, seed=seed), exact=True),
        spec("exact, sampled drafts", policy=old, exact=True),
        spec("exact, greedy drafts", policy=old, exact=True, sampled=False),
        spec("SPEC-RL made exact", policy=old, exact=True, once=True),
        *(_tilted(name, tilt, law=law) for name, tilt in TILTS.items()),
        spec("SPEC-RL as released", policy=old, exact=False, once=True),
        spec("SPEC-RL as released, one update", policy=newer, exact=False, once=True),
        *faults(model),
    ]


def run(*, num: int, samples: int = SAMPLES, level: float = LEVEL) -> Iterator[Tally]:
    """Audits `num` engines of every kind, each with seeds of its own."""
    model, prompts = toy()
    for trial in trials(model):
        cells = [
            one(trial, model=model, prompts=prompts, seed=seed, samples=samples, level=level)
            for seed in range(num)
        ]
        yield Tally(
            name=trial.name,
            exact=trial.exact,
            verdicts={v: sum(c.verdict == v for c in cells) for v in Verdict},
            tokens=float(np.mean([c.tokens for c in cells])),
        )


def one(
    trial: Trial,
    *,
    model: ToyModel,
    prompts: Prompts,
    seed: int,
    samples: int = SAMPLES,
    level: float = LEVEL,
) -> Cell:
    """One audit of one engine."""
    engine = trial.make(seed)
    asked = Asked(
        target=ToyTarget(model),
        setting=SETTINGS[trial.setting],
        prompts=prompts,
        drafter=trial.drafter,
        deterministic=trial.deterministic,
        proposal=ToyTarget(trial.policy) if trial.policy else None,
        drafts=engine.drafts if engine.drafter is not None else None,
        ends=(END,),
        samples=samples,
        level=level,
        seed=seed,
    )
    return audit_cell(engine, asked=asked)


def _tilted(name: str, tilt: Tilt, *, law: Laws) -> Trial:
    vocab = law.shape[-1]
    planted = tilt(law.reshape(-1, vocab), distance=DISTANCE).reshape(law.shape)
    return Trial(
        name=f"{DISTANCE:.0%} {name}",
        make=lambda seed: ToyEngine(law=planted, seed=seed),
        exact=False,
    )


def row(tally: Tally) -> str:
    """Of the Markdown table."""
    counts = " | ".join(str(tally.verdicts[v]) for v in Verdict)
    return f"| {tally.name} | {counts} | {tally.at_least:.3f} | {tally.tokens:.0f} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", type=int, default=100, help="of each kind")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="most tokens of an audit")
    options = parser.parse_args()
    print(f"| engine | {' | '.join(Verdict)} | right at least (95 %) | tokens |")
    print("| --- |" + " --- |" * (len(Verdict) + 2))
    wrong = 0
    for tally in run(num=options.engines, samples=options.samples):
        wrong += tally.right < 0.99 * options.engines
        print(row(tally), flush=True)
    sys.exit(wrong > 0)
