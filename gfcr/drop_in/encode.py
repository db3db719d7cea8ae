"""Converts the prompts, tokens and sampling settings of a TRL trainer to those of gfcr."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, final

from gfcr.errors import ConfigError
from gfcr.loop.known import PLAIN
from gfcr.tasks.base import TURNS
from gfcr.tasks.codec import HfCodec
from gfcr.train.rollout_func import TrlPrompt
from gfcr.types import Prompt, Sampling

UNSAMPLED: Final = {"repetition_penalty": 1.0, "vllm_structured_outputs_regex": None}
"""The fields of `GRPOConfig` that would change what is sampled in another way -> their defaults."""
WHY_UNSAMPLED: Final = (
    "rollouts are sampled from the policy itself, with temperature, top_p, top_k and min_p: "
    "leave it out"
)


def prompt_of(row: Mapping[str, Any], *, id: str | None = None, trainer: Any) -> Prompt:
    """Encodes the prompt of a dataset's row, whose other columns go with it as plain data.

    The text of messages is that of the last turn before the answer, as in an experiment. The id is
    by default the text, or the JSON of the messages.
    """
    given: TrlPrompt = row["prompt"]
    if isinstance(given, str):
        name, text, told = given, given, {}
    else:
        turns = [_joined(turn) for turn in given]
        text = next((t["content"] for t in reversed(turns) if t["role"] != "assistant"), "")
        name, told = json.dumps(given, sort_keys=True), {TURNS: turns}
    # Checkpoints and rollout files hold data alone: what JSON lacks becomes text.
    meta = json.loads(PLAIN.encode({k: v for k, v in row.items() if k != "prompt"} | told))
    answer = meta.get("answer")
    return Prompt(
        id=id or name,
        tokens=encode(given, trainer=trainer),
        text=text,
        answer="" if answer is None else str(answer),
        meta=meta,
    )


def _joined(turn: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a turn without empty fields, and with the texts of its content as one."""
    said = turn.get("content")
    parts = cast("list[Any]", said) if isinstance(said, list) else [{"text": said}]
    text = "".join(part.get("text") or "" for part in parts)
    return {k: v for k, v in {**turn, "content": text}.items() if v is not None}


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
    """Returns the sampling settings of a `GRPOConfig`.

    Raises:
        ConfigError: a setting changes what is sampled in a way that the engine cannot follow.
    """
    for name, plain in UNSAMPLED.items():
        given = getattr(args, name)
        if given not in (plain, {}):
            raise ConfigError(f"{name}={given!r}: {WHY_UNSAMPLED}.")
    stops = dict(getattr(args, "generation_kwargs", None) or {})
    given = [stops.pop(name, None) or () for name in ("stop", "stop_strings")]
    stop = [text for each in given for text in ((each,) if isinstance(each, str) else each)]
    ids = stops.pop("stop_token_ids", None) or ()
    if stops:
        raise ConfigError(f"generation_kwargs={stops!r}: {WHY_UNSAMPLED}; stops are.")
    return Sampling(
        stop=tuple(stop),
        stop_token_ids=tuple(ids),
        include_stop=True,  # TRL scores the text of all tokens
        max_tokens=args.max_completion_length,
        temperature=args.temperature,
        top_p=args.top_p,
        top_k=args.top_k or 0,
        min_p=args.min_p or 0.0,
    )


@final
class TrlCodec:
    """Encodes with the model folder's tokenizer, and decodes completions with the trainer's."""

    def __init__(self, inner: HfCodec, *, trainer: Any) -> None:
        self.eos_id, self.prompt, self.encode = inner.eos_id, inner.prompt, inner.encode
        self._trainer = trainer
        self.pieces, self.unsaid = inner.pieces, inner.unsaid
        self.conversation = inner.conversation

    def decode(self, tokens: Sequence[int]) -> str:
        """Decodes a completion as TRL does."""
        ids = [int(token) for token in tokens]
        (text,) = self._trainer.processing_class.batch_decode([ids], skip_special_tokens=True)
        return text
