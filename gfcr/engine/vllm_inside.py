"""gfcr's extension inside a vLLM server: new draft weights, draft budgets, and a record of steps.

The latter two hang on vLLM's scheduler, and read what a request brings in its `extra_args`. On CPU
that lives in another process than the worker.
"""

import functools
from pathlib import Path
from typing import Any, Final, final

from gfcr.engine.server_flight import EXTRA
from gfcr.engine.server_weights import received

EXTENSION: Final = f"{__name__}.Inside"
STEPS: Final = "gfcr_steps"
"""Name under which the record of steps is asked for."""
_STEPS: Final[list[tuple[Any, ...]]] = []
"""Recorded steps: request key, step, row, requests in it, tokens gained, draft tokens verified."""
_MOST: Final = 1_000_000
"""Most steps that are kept until somebody asks for them."""


@final
class Inside:
    """Methods that vLLM's worker gains by `--worker-extension-cls`, for `/collective_rpc`."""

    def gfcr_told(self) -> dict[str, Any]:
        """Returns repairs, speculation, the weights' SHA-256, and whether an update is open."""
        from gfcr.engine import vllm_fixes

        worker: Any = self
        asked = worker.vllm_config.speculative_config
        return {
            "fixes": [*vllm_fixes.in_force()],
            "digest": worker.weight_transfer_engine.digest,
            "open": worker._weight_update_active,
            "drafts": asked and {"method": asked.method, "length": asked.num_speculative_tokens},
        }

    def gfcr_draft(self, path: str, digest: str) -> None:
        """Loads the weights of a file into the draft model, between two steps.

        Raises:
            EngineError: the file does not have the digest.
        """
        worker: Any = self
        tensors = received(Path(path), digest=digest, base=None)
        worker.model_runner.get_draft_model().load_weights(tensors.items())


def install() -> None:
    """Patches scheduler and engine core of this process; repeating it is harmless."""
    from vllm.v1.core.sched import scheduler
    from vllm.v1.engine import core

    owner: Any = scheduler.Scheduler
    engine: Any = core.EngineCore
    if owner.update_draft_token_ids.__module__ != __name__:
        owner.update_draft_token_ids = _keeping_budgets(owner.update_draft_token_ids)
        owner.update_from_output = _recording(owner.update_from_output)
        engine.collective_rpc = _answering_steps(engine.collective_rpc)


def _keeping_budgets(stock: Any) -> Any:
    def update_draft_token_ids(self: Any, drafts: Any) -> None:
        stock(self, drafts)
        for name in drafts.req_ids:
            most = _extra_of(self, name).get("draft_budget")
            if most is not None:
                request = self.requests[name]
                request.spec_token_ids = request.spec_token_ids[:most]

    return update_draft_token_ids


def _recording(stock: Any) -> Any:
    number = 0

    def update_from_output(self: Any, scheduled: Any, output: Any) -> Any:
        nonlocal number
        # The stock function forgets the requests that end in this step.
        names = {i: _extra_of(self, i).get("trace") for i in scheduled.num_scheduled_tokens}
        made = stock(self, scheduled, output)
        if any(names.values()):
            number += 1
            gained = [o for each in made.values() for o in each.outputs if o.new_token_ids]
            drafts = scheduled.scheduled_spec_decode_tokens
            for row, one in enumerate(gained):
                if (key := names.get(one.request_id)) and len(_STEPS) < _MOST:
                    said = [int(token) for token in drafts.get(one.request_id, ())]
                    place = (number, row, len(gained), len(one.new_token_ids))
                    _STEPS.append((key, *place, said))
        return made

    return update_from_output


def _answering_steps(stock: Any) -> Any:
    @functools.wraps(stock)  # vLLM asks its signature how many arguments it takes
    def collective_rpc(self: Any, method: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the recorded steps and forgets them; passes every other call to the workers."""
        if method != STEPS:
            return stock(self, method, *args, **kwargs)
        told = [[*step] for step in _STEPS]
        _STEPS.clear()
        return [told]

    return collective_rpc


def _extra_of(scheduler: Any, name: str) -> dict[str, Any]:
    """Returns what gfcr put into a request's `extra_args`; empty for others' requests."""
    request = scheduler.requests.get(name)
    params = request and request.sampling_params
    brought: dict[str, Any] = (params and params.extra_args) or {}
    return brought.get(EXTRA, {})
