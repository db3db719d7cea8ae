"""Micro-batches and padding (a second; the file needs torch)."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from gfcr.train.collate import Padded, collate, loss_tokens, trainable, units
from gfcr.types import Sample
from tests.integration.trl_script import groups, rollout, samples_of

CPU = torch.device("cpu")


def sized(lengths):
    rng = np.random.default_rng(0)
    rollouts = [rollout(rng, prompt=0, member=i, mask=[True] * n) for i, n in enumerate(lengths)]
    return [(Sample(rollout=r, advantage_T=np.ones(len(r), np.float32)),) for r in rollouts]


@given(st.lists(st.integers(1, 300), max_size=60), st.integers(2, 9))
def test_every_sample_is_in_one_run_and_runs_are_in_order_of_length(lengths, count):
    runs = units(sized(lengths), count=count)
    assert len(runs) == count
    assert [len(s.rollout) for run in runs for (s,) in run] == sorted(lengths)
    assert sum(not run for run in runs) == max(0, count - len(lengths))


@given(st.lists(st.integers(1, 300), min_size=9, max_size=60), st.integers(2, 9))
def test_runs_hold_about_the_same_number_of_tokens(lengths, count):
    samples = sized(lengths)
    tokens = [sum(len(s.rollout) + 2 for (s,) in run) for run in units(samples, count=count)]
    longest = max(lengths) + 2
    assert max(tokens) <= sum(tokens) / count + 1.5 * longest


def test_padding_leaves_every_token_where_it_belongs():
    samples = samples_of(groups(0))
    padded = collate(samples, device=CPU)
    for i, s in enumerate(samples):
        prompt = padded.prompt_ids_BP[i][padded.prompt_mask_BP[i].bool()]
        assert tuple(prompt.tolist()) == s.rollout.prompt.tokens
        assert padded.prompt_mask_BP[i, -1] == 1 and padded.completion_mask_BT[i, 0] == 1
        length = len(s.rollout)
        assert padded.completion_mask_BT[i].sum() == length
        for table, row in (
            (padded.completion_ids_BT, s.rollout.tokens_T),
            (padded.sampled_logps_BT, s.rollout.logprobs_T),
            (padded.advantages_BT, s.advantage_T),
            (padded.loss_mask_BT, s.rollout.mask_T),
        ):
            assert np.array_equal(table[i, :length].numpy(), row)
            assert not table[i, length:].any()


def test_no_samples_make_a_row_that_weighs_nothing():
    padded = collate([], device=CPU)
    assert not padded.loss_mask_BT.any() and not padded.advantages_BT.any()
    shapes = {
        getattr(padded, name).shape for name in Padded.__dataclass_fields__ if name != "corrected"
    }
    assert shapes == {(1, 1)}


def test_environment_text_alone_is_not_trainable():
    rng = np.random.default_rng(0)
    masks = ([True, False, True], [False, False])
    rollouts = [rollout(rng, prompt=0, member=0, mask=m) for m in masks]
    samples = [Sample(rollout=r, advantage_T=np.ones(len(r), np.float32)) for r in rollouts]
    assert trainable(samples) == samples[:1]
    assert loss_tokens(samples) == 2
