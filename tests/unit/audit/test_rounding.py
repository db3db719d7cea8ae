"""An engine in bfloat16 is judged by bfloat16's precision: its own rounding is no bias."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from gfcr.audit.asked import ROUNDINGS, Asked
from gfcr.audit.greedy import compare
from gfcr.audit.judge import audit_cell
from gfcr.audit.law import Laws, target_law
from gfcr.audit.sampler import PLAIN, Place, Sampled
from gfcr.certificate.cell import Cell, Verdict
from gfcr.certificate.settings import SETTINGS
from gfcr.engine.base import Request
from gfcr.types import Sampling
from tests.campaign import audits
from tests.campaign.toy import ToyEngine, ToyModel, ToyTarget

MODEL, PROMPTS = audits.toy()


def rounded(model: ToyModel) -> ToyModel:
    """The same model in bfloat16: logits near 4, where a step is a 32nd."""
    logits = torch.tensor(model.logprobs + 8).to(torch.bfloat16).double()
    return ToyModel(logits.log_softmax(-1).numpy())


def audited(law: Laws, *, dtype: str, samples: int = 16_000) -> Cell:
    older = MODEL.drifted(temperature=1.3, noise=0.5, seed=1).law(sampling=Sampling())
    engine = ToyEngine(law=law, drafter=older, seed=3)
    asked = Asked(
        target=ToyTarget(MODEL),
        setting=SETTINGS["t1"],
        prompts=PROMPTS,
        drafter="toy",
        drafts=engine.drafts,
        deterministic=False,
        samples=samples,
        dtype=dtype,
    )
    return audit_cell(engine, asked=asked)


@pytest.mark.parametrize("dtype, biased", [("bfloat16", False), ("float32", True)])
def test_rounding_is_a_bias_of_float32_alone(dtype: str, biased: bool) -> None:
    found = audited(rounded(MODEL).law(sampling=Sampling()), dtype=dtype)
    assert (found.verdict is Verdict.BIASED) == biased, found.reason


def test_what_bfloat16_does_not_excuse_is_found() -> None:
    hot = MODEL.law(sampling=Sampling(temperature=1.1))
    assert audited(hot, dtype="bfloat16", samples=8_000).verdict is Verdict.BIASED


@pytest.mark.parametrize("gap, clear, wrong", [(0.2, 0, 0), (1.0, 1, 1)])
def test_an_argmax_that_rounding_may_turn_is_left_out(gap: float, clear: int, wrong: int) -> None:
    """The engine takes the second best token, which lies `gap` nats below the best."""
    logits = np.array([0.0, gap, -5.0])
    target = ToyTarget(ToyModel(np.broadcast_to(logits, (3, 3, 3))))
    place = Place(0, 0, PLAIN, -1, length=0, told=False, step=0, row=0, running=1)
    request = Request(id="0", tokens=(2, 2), sampling=Sampling())
    second = Sampled(request=request, tokens=[0], places=[place])
    greedy = Asked(target=target, setting=SETTINGS["greedy"], prompts=PROMPTS)
    found = compare([second], asked=replace(greedy, dtype="bfloat16"))
    assert (len(found), found.impossible) == (clear, wrong)
    exact = compare([second], asked=greedy)
    assert (len(exact), exact.impossible) == (1, 1)


def test_an_edge_that_rounding_may_move_is_left_out() -> None:
    """Top-k between tokens of 0.31 and 0.29: bfloat16 may keep either."""
    law = np.log([[0.4, 0.31, 0.29]])
    two = Sampling(top_k=2)
    assert target_law(law, sampling=two, tie=ROUNDINGS["bfloat16"].tie).unclear.all()
    assert not target_law(law, sampling=two).unclear.any()
