"""Speculation on a vLLM engine: rows to our drafters, their drafts to vLLM, pace and budgets.

Imports no vllm. What is verified in a step was proposed at the end of the step before.
"""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final, final

import numpy as np

from gfcr.engine import vllm_fixes
from gfcr.engine.base import EngineStats
from gfcr.engine.drafting import Drafting
from gfcr.errors import asking
from gfcr.speculation.base import NOTHING, BuiltIn, Draft, Drafter, Law

BRIDGE: Final = f"{__name__}.Bridge"


@final
class Bridge:
    """The proposer class that vLLM constructs; it forwards every call to `Speculation`."""

    def __init__(self, vllm_config: Any) -> None:
        self.behind: Speculation | None = None

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: the drafter has loaded its own model."""

    def propose(
        self,
        sampled_token_ids: Sequence[Sequence[int]],
        num_tokens_no_spec: Any,
        token_ids_cpu: Any,
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """Called by vLLM's runner at the end of every step; returns draft tokens by row."""
        if self.behind is None:
            return [[] for _ in sampled_token_ids]
        return self.behind.propose(sampled_token_ids, num_tokens_no_spec, token_ids_cpu)


@final
class Speculation:
    """Runs one engine's drafter at the right points of each step."""

    def __init__(self, drafting: Drafting, *, core: Any, runner: Any, vocab: int) -> None:
        self._drafting, self._core, self._runner, self._vocab = drafting, core, runner, vocab
        if drafting.proposer is not None:
            runner.drafter.behind = self
        self._seats: int = core.scheduler.max_num_running_reqs
        self._warm = self._told = False
        self._lookup_s = 0.0  # of the step under way
        self._rule = ExitStack()
        if not drafting.exact:
            self._rule.enter_context(vllm_fixes.fresh_draws())

    @property
    def record(self) -> int:
        """Returns how many likeliest tokens' log-probs the engine must report per sampled token."""
        return min(self._drafting.record, self._vocab)

    def emitted(self, request_id: str, *, tokens: Sequence[int], logprobs: Any) -> None:
        """Records tokens that a request gained; `logprobs` are vLLM's lists, or None."""
        law = None
        if self.record and logprobs is not None:
            # The first column is the sampled token, which the likeliest ones hold or lack.
            ids_TM = np.asarray(logprobs.logprob_token_ids[: len(tokens), 1:], np.int32)
            logprobs_TM = np.asarray(logprobs.logprobs[: len(tokens), 1:], np.float32)
            law = Law(ids_TM=ids_TM, probs_TM=np.exp(logprobs_TM))
        self._drafting.emitted(request_id, tokens=tokens, law=law)

    def close(self) -> None:
        """Restores vLLM's own rule for rejected drafts."""
        self._rule.close()

    def open(self) -> None:
        """Ends the warm-up: from now on the drafter sets the draft length and sees counters."""
        self._warm = True

    def before(self, *, running: int) -> None:
        """Called before each step: syncs fresh draft weights and sets the draft length."""
        drafting = self._drafting
        if drafting.drafter is None or not self._warm:
            return
        with asking("drafter"):
            fresh = drafting.drafter.fresh_weights()
        if fresh is not None:
            self._runner.get_draft_model().load_weights(fresh)
            # The draft's keys and values of cached prompts are its predecessor's. Refused, without
            # harm, while requests are in flight: those keep what they have.
            self._core.reset_prefix_cache()
        was, idle = drafting.pace, drafting.idle
        # Requests beyond the seats wait, so that no step decodes more than there are seats.
        drafting.set_pace(running=0 if idle else min(running, self._seats))
        self._told = not idle
        if drafting.pace != was and drafting.proposer is None:
            self._set_length(drafting.pace)

    def after(self, *, running: int, new: EngineStats, seconds: float) -> EngineStats:
        """Called after each step: trims drafts to budgets and reports counters to the drafter.

        Returns:
            What the step counts besides, see `Drafting.saw`.
        """
        lookup_s, self._lookup_s = self._lookup_s, 0.0
        if self._drafting.drafter is None:
            return EngineStats()
        self._trim()
        if not self._told:
            return EngineStats()
        seats = min(running, self._seats)
        return self._drafting.saw(new, running=seats, seconds=seconds, lookup_s=lookup_s)

    def _set_length(self, pace: int) -> None:
        """Sets the draft length of vLLM's own methods, through the scheduler's lookup table."""
        scheduler = self._core.scheduler
        scheduler.dynamic_sd_lookup = [pace] * (self._seats + 1)
        if self._runner.speculative_config.method == "suffix":
            self._runner.drafter.num_speculative_tokens = pace  # it insists that both agree

    def propose(self, sampled: Sequence[Sequence[int]], lengths: Any, tokens: Any) -> Any:
        """See `Bridge.propose`."""
        begun = time.perf_counter()
        ids: list[str] = self._runner.input_batch.req_ids
        requests = self._core.scheduler.requests
        asked = {
            i: row
            for i, new in enumerate(sampled)
            if new
            and ids[i] in requests
            and (
                row := self._drafting.row(
                    ids[i], tokens_T=tokens[i, : lengths[i]], cap=requests[ids[i]].max_tokens
                )
            )
        }
        drafts = [NOTHING] * len(sampled)
        for i, draft in zip(asked, self._drafting.propose(list(asked.values())), strict=True):
            drafts[i] = draft
        # vLLM takes laws for all rows or for none: rows without one get a point mass.
        if any(d.law is not None for d in drafts):
            self._runner._draft_probs = self._dense(drafts)
            # vLLM changes its own list in place before it looks these up in the next step.
            self._runner._draft_prob_req_ids = list(ids)
        self._lookup_s += time.perf_counter() - begun
        return [list(d.tokens) for d in drafts]

    def _trim(self) -> None:
        requests = self._core.scheduler.requests
        for request_id, most in self._drafting.budgets().items():
            running = requests.get(request_id)
            if running is not None and len(running.spec_token_ids) > most:
                running.spec_token_ids = running.spec_token_ids[:most]

    def _dense(self, drafts: Sequence[Draft]) -> Any:
        """Returns draft probabilities as a dense tensor (requests, longest draft, vocab)."""
        import torch

        library: Any = torch
        longest = max(len(d.tokens) for d in drafts)
        dense = np.zeros((len(drafts), longest, self._vocab), np.float32)
        for i, draft in enumerate(drafts):
            t = np.arange(len(draft.tokens))
            if draft.law is None:
                dense[i, t, list(draft.tokens)] = 1.0
            else:
                dense[i, t[:, None], draft.law.ids_TM] = draft.law.probs_TM
        return library.from_numpy(dense).to(self._runner.device)


def settings(drafter: Drafter) -> dict[str, Any]:
    """Returns vLLM's `speculative_config` for a drafter."""
    core = drafter.core
    if isinstance(core, BuiltIn):
        return dict(core.settings())
    return {
        "method": "custom_class",
        "model": BRIDGE,
        "num_speculative_tokens": drafter.max_draft,
    }
