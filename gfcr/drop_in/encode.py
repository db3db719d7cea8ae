"""Prompts as the trainer of a script encodes them, and its sampling settings."""

from typing import Any

from gfcr.train.rollout_func import TrlPrompt
from gfcr.types import Sampling


def encode(given: TrlPrompt, *, trainer: Any) -> tuple[int, ...]:
    """Encodes a prompt with the trainer's tokenizer and, where it is messages, chat template."""
    tokenizer = trainer.processing_class
    if isinstance(given, str):
        return tuple(tokenizer(text=given)["input_ids"])
    encoded = tokenizer.apply_chat_template(
        conversation=given,
        chat_template=trainer.chat_template,
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        **trainer.chat_template_kwargs,
    )
    return tuple(encoded["input_ids"])


def sampling_of(args: Any) -> Sampling:
    """What `GRPOConfig` says of sampling."""
    return Sampling(
        max_tokens=args.max_completion_length,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k,
        min_p=args.min_p or 0.0,
    )
