"""vLLM as an engine: starts it in this process with settings that fit the device it finds."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, final

from annotated_types import Interval

from gfcr.engine.base import Request
from gfcr.engine.vllm_loop import VllmEngine
from gfcr.engine.vllm_model import ModelFolder, open_folder, room_of
from gfcr.engine.vllm_settings import Settings
from gfcr.errors import ConfigError, EngineError
from gfcr.process.cores import own_threads
from gfcr.process.environment import left_frozen, load
from gfcr.speculation.base import Drafter, Target


@final
@dataclass(kw_only=True)
class Vllm(Settings):
    """vLLM in this process, on whatever device it finds."""

    alone: ClassVar[bool] = True
    libraries: ClassVar[tuple[str, ...]] = ("vllm.entrypoints.llm", "gfcr.engine.vllm_worker")
    sleep: Annotated[int, Interval(ge=0, le=2)] = 0
    """On a GPU: 1 leaves its memory to the trainer between a batch and the next sync, weights in
    host memory; 2 drops them, and the sync brings them back."""

    def start(self, *, model: str, seed: int, drafter: Drafter | None = None) -> "VllmEngine":
        """Starts vLLM on a model folder, repaired where this device needs it, and warms it up.

        Raises:
            ConfigError: the drafter does not fit the model, or this machine cannot sleep.
            EngineError: the folder is no model, or vLLM refuses it with these settings.
        """
        folder = open_folder(model)
        max_length = room_of(folder, asked=self.max_length)
        if drafter is not None:
            target = Target(folder=folder.path, vocab=folder.vocab, max_length=max_length)
            drafter.check(target)
        VllmEngine.check_alone()
        # vLLM's own dependencies warn of what a user can do nothing about.
        with warnings.catch_warnings(action="ignore"):
            fixes = repair(self)
            llm = _start(self, folder=folder, seed=seed, max_length=max_length, drafter=drafter)
            return VllmEngine(
                llm,
                folder=folder,
                max_length=max_length,
                fixes=fixes,
                translate=_translate,
                drafter=drafter,
                sleep=self.sleep,
            )

    def machine(self) -> dict[str, Any]:
        from vllm.platforms import current_platform

        if not self.sleep:
            return super().machine()
        if not current_platform.is_sleep_mode_available():
            raise ConfigError(
                f"engine.sleep={self.sleep} gives a GPU's memory back, and vLLM runs on "
                f"'{current_platform.device_type}' here, which has none: give engine.sleep=0."
            )
        return {**super().machine(), "enable_sleep_mode": True}


def _translate(
    llm: Any, request: Request, *, eos: Sequence[int], score: int | None, logprobs: int
) -> Any:
    from vllm.exceptions import VLLMValidationError
    from vllm.inputs.engine import tokens_input

    try:
        params = parameters(request, eos=eos, score=score, logprobs=logprobs)
        return llm.llm_engine.input_processor.process_inputs(
            request.id,
            tokens_input(list(request.tokens)),
            params,
            ("generate",),
            priority=request.priority,
        )
    except (ValueError, VLLMValidationError) as error:
        raise EngineError(f"vLLM refused request '{request.id}': {error}") from error


def parameters(
    request: Request, *, eos: Sequence[int], score: int | None = None, logprobs: int = 0
) -> Any:
    """Translates a request's sampling settings into vLLM's `SamplingParams`.

    Args:
        request: the request to translate.
        eos: tokens that end the request.
        score: where log-probs of the prompt's tokens are wanted too, with how many of the
            likeliest in their places.
        logprobs: number of likeliest tokens to report beside each sampled one.
    """
    from vllm import SamplingParams

    sampling = request.sampling
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        min_p=sampling.min_p,
        max_tokens=sampling.max_tokens,
        seed=request.seed,
        stop_token_ids=[*eos, *request.stop],
        ignore_eos=True,  # vLLM without a tokenizer knows no end-of-sequence token
        logprobs=logprobs,
        prompt_logprobs=score,
        detokenize=False,
        skip_clone=True,
    )


def repair(config: Vllm) -> tuple[str, ...]:
    """Makes vLLM run in this process and repairs it; returns the names of the repairs in force.

    Raises:
        EngineError: `fixes` is False although repairs are in force in this process.
    """
    # In process: the pipeline steps the engine, and weights and drafter stay within reach.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    # One runner on CPU and GPU: scoring and draft budgets reach into it.
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"
    load(config.libraries)
    from vllm.platforms import current_platform

    from gfcr.engine import vllm_fixes

    # Unrepaired engines need this, too, or scores ignore the temperature, also on a GPU.
    vllm_fixes.own_temperatures()
    if config.fixes:
        return vllm_fixes.apply(cpu=current_platform.is_cpu())
    if vllm_fixes.in_force():
        raise EngineError(
            "fixes=false needs a process in which no fixed engine was started: "
            f"{', '.join(vllm_fixes.in_force())} are in force here; start a fresh process."
        )
    return ()


def _start(
    config: Vllm, *, folder: ModelFolder, seed: int, max_length: int, drafter: Drafter | None
) -> Any:
    from vllm import LLM

    settings = config.arguments(folder, max_length=max_length, seed=seed, drafter=drafter)
    try:
        with left_frozen(), own_threads():
            path = str(folder.path)
            # Counts of drafts come with the statistics that vLLM logs, and not at all without them.
            return LLM(path, disable_log_stats=False, use_tqdm_on_load=False, **settings)
    except Exception as error:  # vLLM raises a dozen kinds here, all of them about its settings
        raise EngineError(
            f"vLLM could not start on '{folder.path}' ({type(error).__name__}: {error}). "
            "Cache memory is set by engine.kv_cache_gib and engine.max_length; "
            "VLLM_LOGGING_LEVEL=INFO in the environment shows vLLM's own log."
        ) from error
