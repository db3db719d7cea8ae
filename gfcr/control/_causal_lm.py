"""A model of transformers that is asked for log-probs, in a thread beside decoding."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, Final

import numpy as np

from gfcr.errors import shown
from gfcr.types import Floats

_TURN: Final = Lock()
"""Groups that are complete at once are scored one after another: each pass fills the cores."""


def problem_of(model: str, *, device: str, texts: Mapping[int, str]) -> str | None:
    """Returns why the model cannot say how probable the run's tokens are, if so.

    Args:
        model: its folder.
        device: where it is.
        texts: what tokens mean to the run, by id.
    """
    with _TURN:
        try:
            tokenizer, lm = _loaded(model, device)
        except (OSError, ValueError) as error:
            return (
                f"cannot be loaded ({shown(str(error).strip())}): give the folder of a causal "
                "language model with its tokenizer, as save_pretrained writes it"
            )
    size = int(lm.get_input_embeddings().num_embeddings)
    for token, text in texts.items():
        own = tokenizer.decode([token], skip_special_tokens=True) if token < size else None
        if own != text:
            return (
                f"has another vocabulary than the run's model: token {token} is {shown(own)} to it "
                f"and {shown(text)} here. Give a teacher of the same family, with the same tokens"
            )
    return None


def logprobs_of(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    model: str,
    device: str,
    temperature: float,
    batch_tokens: int,
    weights: Mapping[str, Floats] | None = None,
) -> list[Floats]:
    """Log-probabilities of completions given contexts; NaN where both exceed the model's length.

    Args:
        pairs: context and completion tokens.
        model: its folder.
        device: where it is.
        temperature: of the law; 0 is read as 1, as engines do.
        batch_tokens: most tokens of a pass, padding included, unless one sequence has more.
        weights: by name, in place of the folder's.
    """
    with _TURN:
        _, lm = _loaded(model, device)
        own = _tensors(weights or {}, device=device)
        longest = getattr(lm.config, "max_position_embeddings", None) or np.inf
        found = [np.full(len(completion), np.nan, np.float32) for _, completion in pairs]
        fits = [i for i, (head, tail) in enumerate(pairs) if len(head) + len(tail) <= longest]
        # The longest comes first, so that its length is the padded width of its whole pass.
        fits.sort(key=lambda i: len(pairs[i][0]) + len(pairs[i][1]), reverse=True)
        while fits:
            width = sum(map(len, pairs[fits[0]]))
            rows, fits = fits[: max(1, batch_tokens // width)], fits[batch_tokens // width or 1 :]
            scored = _pass([pairs[i] for i in rows], lm=lm, weights=own, heat=temperature or 1.0)
            found = [scored[rows.index(i)] if i in rows else f for i, f in enumerate(found)]
    return found


def _tensors(weights: Mapping[str, Floats], *, device: str) -> dict[str, Any]:
    import torch

    of: Any = torch  # partially typed
    return {name: of.from_numpy(w).to(device) for name, w in weights.items()}


def _pass(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    lm: Any,
    weights: dict[str, Any],
    heat: float,
) -> list[Floats]:
    """One forward pass, the longest sequence first; padded behind, where nothing attends to."""
    import torch

    rows = [torch.tensor([*head, *tail]) for head, tail in pairs]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(lm.device)
    lengths = torch.tensor([[len(row)] for row in rows])
    attended = (torch.arange(ids.shape[1])[None] < lengths).to(lm.device)
    found: list[Floats] = []
    with torch.inference_mode():
        given = {"input_ids": ids, "attention_mask": attended, "use_cache": False}
        logits = torch.func.functional_call(lm, weights, kwargs=given).logits
        for (head, tail), row, said in zip(pairs, rows, logits, strict=True):
            law = (said[len(head) - 1 : len(row) - 1].float() / heat).log_softmax(-1)
            own_T = law.gather(1, row[len(head) :, None].to(lm.device))[:, 0]
            found.append(np.array(own_T.tolist(), np.float32))
            assert len(tail) == len(found[-1]), "one log-prob a token of the completion"
    return found


def names_of(model: str, *, device: str) -> set[str]:
    """Names of the weights of a model, given its folder; tied ones once."""
    with _TURN:
        return {name for name, _ in _loaded(model, device)[1].named_parameters()}


@lru_cache(maxsize=1)
def _loaded(model: str, device: str) -> tuple[Any, Any]:
    import torch
    import transformers

    library: Any = transformers  # partially typed
    tokenizer = library.AutoTokenizer.from_pretrained(model)
    lm = library.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    return tokenizer, lm.to(device).eval()
