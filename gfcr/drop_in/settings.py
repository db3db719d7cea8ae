"""Which fields of TRL's `GRPOConfig` are honoured; the others are allowed at their default only.

The one place that says so. A field of a later TRL that is not named here is refused when it is set,
and a test compares the names with the class that is installed.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, Final, TypeGuard

from gfcr.drop_in.encode import UNSAMPLED, WHY_UNSAMPLED
from gfcr.filter.group_advantage import GroupAdvantage
from gfcr.filter.truncation_gate import TruncationGate
from gfcr.part import Part
from gfcr.strategy import Strategy
from gfcr.values.loss import AVERAGED
from gfcr.values.plain import default_of

_AS_IN_TRL: Final = """
    output_dir num_train_epochs max_steps learning_rate lr_scheduler_type lr_scheduler_kwargs
    warmup_steps optim optim_args optim_target_modules weight_decay adam_beta1 adam_beta2
    adam_epsilon max_grad_norm bf16 tf32 gradient_checkpointing gradient_checkpointing_kwargs
    activation_checkpointing activation_checkpointing_kwargs use_cache torch_empty_cache_steps
    disable_dropout cast_lm_head_to_fp32 accelerator_config

    use_bias_correction_kl off_policy_mask_threshold
    sync_ref_model ref_model_mixup_alpha ref_model_sync_steps

    do_train do_eval do_predict resume_from_checkpoint use_cpu debug
    logging_strategy logging_steps logging_first_step log_on_each_node logging_nan_inf_filter
    log_completions num_completions_to_print log_unique_prompts log_completions_hub_repo
    log_level log_level_replica disable_tqdm report_to run_name project trackio_space_id
    trackio_bucket_id trackio_static_space_id skip_memory_metrics include_num_input_tokens_seen

    eval_strategy eval_steps eval_delay per_device_eval_batch_size prediction_loss_only
    eval_on_start eval_do_concat_batches eval_use_gather_object eval_accumulation_steps
    include_for_metrics batch_eval_metrics bf16_full_eval fp16_full_eval num_generations_eval
    cache_implementation use_transformers_continuous_batching
    transformers_continuous_batching_config use_transformers_paged

    save_strategy save_steps save_only_model save_on_each_node save_total_limit push_to_hub
    hub_token hub_private_repo hub_model_id hub_strategy hub_always_push hub_revision
    load_best_model_at_end metric_for_best_model greater_is_better
    restore_callback_states_from_checkpoint

    dataloader_drop_last dataloader_num_workers dataloader_pin_memory
    dataloader_persistent_workers dataloader_prefetch_factor dataloader_multiprocessing_context
    dataloader_in_order

    label_names label_smoothing_factor train_sampling_strategy length_column_name
    average_tokens_across_devices
"""
HONOURED_BY_TRL: Final = frozenset(_AS_IN_TRL.split())
"""What TRL and transformers do with it, in training, evaluation or neither, is what they do in
TRL's own trainer. The last two lines have no effect there either."""

_AS_HERE: Final = """
    per_device_train_batch_size gradient_accumulation_steps steps_per_generation
    generation_batch_size num_iterations num_generations max_completion_length temperature
    top_p top_k min_p chat_template_kwargs shuffle_dataset seed reward_weights loss_type epsilon
    epsilon_high delta importance_sampling_level beta model_init_kwargs router_aux_loss_coef
    pad_to_multiple_of scale_rewards mask_truncated_completions use_vllm vllm_mode generation_kwargs
"""
HONOURED_HERE: Final = frozenset(_AS_HERE.split())
"""What gfcr does itself, within the limits that `refused` knows."""

HONOURED: Final = HONOURED_BY_TRL | HONOURED_HERE

_ONE_PROCESS: Final = "training is one process: leave it out"
_LOSS: Final = "the loss is the strategy's: strategy={'name': ..., 'loss': {'aggregation': ...}}"
UNKNOWN: Final = "this version of gfcr does not know what it does: leave it out"

REASONS: Final[Mapping[str, str]] = {
    "|".join(UNSAMPLED): WHY_UNSAMPLED,
    "parallelism_config|ddp_.*|fsdp.*|deepspeed|local_rank|ds3_.*": _ONE_PROCESS,
    "vllm_importance_sampling_.*": (
        "the correction for old rollouts is the strategy's: "
        "strategy={'name': ..., 'correction': {'name': 'truncated', 'cap': ...}}"
    ),
    "vllm_.*": "the engine is the strategy's: GRPOTrainer(..., engine={...}) sets it",
    "multi_objective_aggregation": (
        "advantages are the strategy's: choose one, such as dr_grpo, or give a filter, "
        "strategy={'name': ..., 'filters': {'advantage': {'name': 'group_advantage', 'kind': ...}}}"
    ),
    "sapo_.*|vespo_.*": _LOSS,
    ".*entropy.*": (
        "TRL takes it over each micro-batch, and micro-batches are cut otherwise here, so that the "
        "update would be another: leave it out"
    ),
    "torch_compile.*|.*liger_kernel.*|neftune_noise_alpha": (
        "the engine is given the weights as they are: leave it out"
    ),
    "ignore_data_skip|data_seed": (
        "a resumed run goes on with its own prompts and draws: leave it out"
    ),
    "log_multimodal": "prompts are text here: leave it out",
    "fp16": "an update without rollouts has no gradient to scale: give bf16",
    "auto_find_batch_size": "TRL does not allow it either: leave it out",
    "remove_unused_columns": "reward functions read the columns of the dataset: leave it out",
    "enable_jit_checkpoint": "its checkpoint would lack the rollouts' side: give save_steps",
    "full_determinism": "the engine runs in this process and has no such mode: leave it out",
    "trust_remote_code": "the engine runs no code of a checkpoint: leave it out",
    "max_tool_calling_iterations": "use a strategy with a tool, such as multi_turn",
    ".*": UNKNOWN,
}
"""A pattern of names -> why such a field has no value but its default, and what to do.

The first pattern that matches a name counts."""

_OF_LOSS: Final = {
    "epsilon": "clip_low",
    "epsilon_high": "clip_high",
    "importance_sampling_level": "level",
    "delta": "delta",
}
"""Fields of `GRPOConfig` -> those of a strategy's loss."""
_LOSS_TYPES: Final = {
    kind if form == "clipped" else form: (form, kind)
    for form, kinds in AVERAGED.items()
    for kind in kinds
}
"""A `loss_type` -> the form and the aggregation of a strategy's loss."""
_LOADING: Final = ("dtype", "torch_dtype", "attn_implementation")


def why_not(name: str) -> str:
    """Returns why a field that is not honoured is refused, and what to do."""
    return next(why for pattern, why in REASONS.items() if re.fullmatch(pattern, name))


def refused(args: Any, *, strategy: Strategy) -> list[str]:
    """Names each setting of a `GRPOConfig` that would not be honoured, and what to do."""
    theirs = next(c for c in type(args).__mro__ if c.__module__.startswith("trl."))
    wrong = [
        f"{field.name}={given!r}: {why_not(field.name)}"
        for field in fields(theirs)
        if field.name not in HONOURED
        and not _same(given := getattr(args, field.name), default_of(field))
    ]
    wrong += _groups(args, strategy=strategy)
    wrong += _steps(args)
    wrong += _values(args)
    wrong += _rollouts(args, strategy=strategy)
    return [*wrong, *_loss_settings(args, strategy=strategy)]


def adopted(strategy: Strategy, *, args: Any, own: Collection[str]) -> Strategy:
    """Returns the strategy with the settings of a `GRPOConfig` that it has too.

    Args:
        strategy: the strategy.
        args: the settings; one at its default asks for nothing.
        own: the keys of the strategy that the script gives itself, which stay as they are.
    """
    defaults = {field.name: default_of(field) for field in fields(args)}
    asked = {k: v for k in defaults if not _same(v := getattr(args, k), defaults[k])}
    if "epsilon" in asked and strategy.loss.clip_low == strategy.loss.clip_high:
        asked.setdefault("epsilon_high", asked["epsilon"])  # as TRL reads it
    said = strategy.loss.spec() if "loss" in own else {}
    given = {ours: asked[k] for k, ours in _OF_LOSS.items() if k in asked and ours not in said}
    if not said and (kind := _LOSS_TYPES.get(asked.get("loss_type", ""))):
        given |= dict(zip(("form", "aggregation"), kind, strict=True))
    strategy = replace(strategy, loss=replace(strategy.loss, **given))
    filters = dict(strategy.filters)
    if "filters" not in own and asked.get("scale_rewards") == "none":
        unscaled = {n: replace(f, kind="dr_grpo") for n, f in filters.items() if _is_scaled(f)}
        filters |= unscaled
    if asked.get("mask_truncated_completions"):  # behind the advantages, which compare all
        filters.setdefault("truncated", TruncationGate())
    return replace(strategy, filters=filters)


def _is_scaled(part: Part) -> TypeGuard[GroupAdvantage]:
    return isinstance(part, GroupAdvantage) and part.kind == "grpo"


def overruled(args: Any, *, strategy: Strategy) -> str:
    """Names the defaults of `GRPOConfig` in whose place the strategy's loss stands, if any."""
    ours = strategy.loss.of_trl()
    theirs = {name: getattr(args, name) for name in ours}
    theirs["epsilon_high"] = theirs["epsilon_high"] or theirs["epsilon"]
    changed = [f"{name}={v!r}" for name, v in ours.items() if not _same(v, theirs[name])]
    return ", ".join(changed)


def _groups(args: Any, *, strategy: Strategy) -> Iterator[str]:
    """Names what keeps a batch from being whole groups of the strategy's size."""
    size = args.num_generations
    rollouts = args.per_device_train_batch_size * args.steps_per_generation
    if size != strategy.group_size:
        yield f"num_generations={size} and group_size={strategy.group_size}: give one of them"
    if rollouts % size:
        yield (
            f"per_device_train_batch_size x steps_per_generation = {rollouts} rollouts are no "
            f"whole groups of {size}"
        )


def _steps(args: Any) -> Iterator[str]:
    """Names what would cut a batch short: in a step, at the end, or in a checkpoint."""
    passes, epochs = args.gradient_accumulation_steps, args.num_train_epochs
    parts, rest = divmod(args.steps_per_generation, passes)
    steps = max(1, parts * args.num_iterations)
    last = f"rollouts last for {steps} optimizer steps"
    if rest or not parts:
        yield (
            f"steps_per_generation={args.steps_per_generation}, and an optimizer step takes "
            f"gradient_accumulation_steps={passes} passes: give a multiple, or leave it and "
            "generation_batch_size out"
        )
    if args.max_steps <= 0 and steps > 1 and not float(epochs).is_integer():
        yield (
            f"num_train_epochs={epochs}: {last}, and the last might be cut short: give a whole "
            "number, or max_steps"
        )
    best = args.save_strategy == "best" and args.eval_strategy != "epoch"
    ends = {"max_steps": args.max_steps > 0, "save_steps": args.save_strategy == "steps"}
    for name, counts in {**ends, "eval_steps": best}.items():
        if counts and steps > 1 and (value := getattr(args, name) or 0) % steps:
            yield f"{name}={value}: {last}: give a multiple"


def _values(args: Any) -> Iterator[str]:
    """Names the honoured fields whose value is not."""
    cap, loading = args.max_completion_length, _loading(args.model_init_kwargs or {})
    if not isinstance(cap, int) or cap < 1:
        yield f"max_completion_length={cap!r}: give an integer >= 1"
    if loading:
        yield (
            f"model_init_kwargs holds {', '.join(loading)}: the engine loads the model too, and "
            f"cannot follow; give {', '.join(_LOADING)} at most"
        )
    if re.fullmatch("(ada)?lomo|.*_layerwise", args.optim.value):
        yield (
            f"optim={args.optim.value!r}: it steps in the backward pass, before gradients are "
            "looked at: give another, such as 'adafactor'"
        )
    if args.router_aux_loss_coef:
        yield f"router_aux_loss_coef={args.router_aux_loss_coef}: give 0"
    if args.pad_to_multiple_of is not None:
        yield (
            f"pad_to_multiple_of={args.pad_to_multiple_of}: batches are padded to their longest "
            "row: leave it out"
        )
    if args.world_size != 1:
        yield f"{args.world_size} processes: {_ONE_PROCESS}"


def _rollouts(args: Any, *, strategy: Strategy) -> Iterator[str]:
    """Names what the strategy or the engine does otherwise."""
    if args.use_vllm and args.vllm_mode != "colocate":
        yield (
            f"vllm_mode={args.vllm_mode!r}: the engine runs beside the trainer: give 'colocate', "
            "or leave use_vllm out and give GRPOTrainer(..., engine={'name': 'vllm_server'})"
        )
    if args.generation_kwargs and args.eval_strategy != "no":
        yield (
            f"generation_kwargs={args.generation_kwargs!r}: TRL's evaluation, which generates "
            "itself, knows no stops: give eval_strategy='no'"
        )
    maps = [part for part in strategy.filters.values() if part.gives_advantages]
    unscaled = all(isinstance(m, GroupAdvantage) and not _is_scaled(m) for m in maps)
    if args.scale_rewards == "batch" or (args.scale_rewards == "none" and not unscaled):
        yield (
            f"scale_rewards={args.scale_rewards!r}: advantages are the strategy's: leave it out, "
            "or give a filter, strategy={'name': ..., 'filters': {'advantage': {'name': "
            "'group_advantage', 'kind': ...}}}"
        )


def _loading(given: Mapping[str, Any]) -> list[str]:
    """Returns the keys of `model_init_kwargs` that the engine could not follow."""
    # TRL's own script gives revision="main" and trust_remote_code=False: defaults ask for nothing.
    moot = (None, "main", False)
    return sorted(k for k, v in given.items() if k not in _LOADING and v not in moot)


def _loss_settings(args: Any, *, strategy: Strategy) -> Iterator[str]:
    """Names the settings that contradict the strategy's loss; TRL's defaults do not."""
    if strategy.loss.estimator != "grpo":
        yield f"the strategy's loss is {strategy.loss.estimator}: only grpo's is this trainer's"
    defaults = {field.name: default_of(field) for field in fields(args)}
    for name, ours in strategy.loss.of_trl().items():
        given = getattr(args, name)
        if given is not None and not _same(given, defaults[name]) and not _same(given, ours):
            yield (
                f"{name}={given!r}, and strategy '{strategy.name}' has {ours!r}: {_LOSS}, or "
                "'clip_low' and 'clip_high'"
            )


def _same(a: Any, b: Any) -> bool:
    empty: tuple[Any, ...] = (None, "", [], {})  # each says as little as the others
    return a == b or (a in empty and b in empty)
