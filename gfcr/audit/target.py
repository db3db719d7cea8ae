"""The trainer's model as the target, and a noisy copy: a draft model, or an older policy."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, final

from gfcr.audit.law import Laws
from gfcr.engine.base import Weights

NOISE: Final = 0.15
"""Noise on each weight tensor, in standard deviations of the target's tensor."""

LOGITS: Final = 8_000_000
"""Most logits computed at once."""


@final
class ModelTarget:
    """The `sampler.Target` of a model folder, by transformers in float32.

    Neighbours with one prompt compute it once.
    """

    def __init__(self, folder: str | Path) -> None:
        import torch

        self._torch: Any = torch
        self._device: Any = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model: Any = _loaded(folder).to(self._device).eval()
        self.vocab = int(self._model.config.get_text_config().vocab_size)

    def weights(self) -> Weights:
        """Returns every parameter by name, as `Engine.update_weights` takes them."""
        return list(self._model.named_parameters())

    def logprobs(self, sequences: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Iterator[Laws]:
        for prompt, group in groupby(sequences, key=lambda pair: tuple(pair[0])):
            completions = [list(tokens) for _, tokens in group]
            rows = max(1, LOGITS // (self.vocab * max(map(len, completions))))
            for start in range(0, len(completions), rows):
                yield from self._some(prompt, completions[start : start + rows])

    def _some(self, prompt: tuple[int, ...], completions: list[list[int]]) -> Iterator[Laws]:
        torch, longest = self._torch, max(map(len, completions))
        # The last prompt token is fed with each completion: it predicts the first token.
        fed = [[prompt[-1], *c[:-1]] for c in completions]
        padded = [row + [0] * (longest - len(row)) for row in fed]
        with torch.inference_mode():
            cache = None
            if len(prompt) > 1:
                head = torch.tensor([prompt[:-1]], device=self._device)
                cache = self._model(head, use_cache=True, logits_to_keep=1).past_key_values
                cache.batch_repeat_interleave(len(fed))
            rows = torch.tensor(padded, device=self._device)
            logits = self._model(rows, past_key_values=cache, use_cache=cache is not None).logits
            logits = logits.float().cpu().numpy()
        for i, completion in enumerate(completions):
            yield logits[i, : len(completion)]


def noisy(target: Path, *, folder: Path) -> Path:
    """Saves the target with noise on its matrices, as a draft model or an older policy.

    It has the target's size: it saves no time, and an audit needs none saved.
    """
    import torch

    library: Any = torch
    draft = _loaded(target)
    generator = library.Generator().manual_seed(0)
    with library.no_grad():
        for parameter in draft.parameters():
            if parameter.dim() > 1:
                noise = library.randn(parameter.shape, generator=generator)
                parameter.add_(NOISE * parameter.std() * noise)
    draft.save_pretrained(folder)
    return folder


def _loaded(folder: str | Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    loader: Any = AutoModelForCausalLM
    return loader.from_pretrained(str(folder), dtype=torch.float32)
