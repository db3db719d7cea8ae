"""Supervised training of the small demo models, from a recipe to a folder that engines load.

`python -m gfcr.train.sft FOLDER` reads a pickled recipe from stdin, prints the number of each step
done, and leaves `gfcr_demo.json` beside the model: the recipe, what the training cost, its curve,
the versions that made it and the digest of the weights.
"""

import hashlib
import itertools
import json
import pickle
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest.mock import patch

import numpy as np
import torch
import transformers
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from torch.optim import _muon  # pyright: ignore[reportPrivateUsage] # its number format is no option

from gfcr.tasks.codec import SPECIAL_TOKENS, CharCodec
from gfcr.tasks.demos.base import Demonstration, Recipe
from gfcr.train.collate import bucketed

Tokens: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Tokens of prompt and completion, the latter with its end-of-sequence token."""

_POOL: Final = 2048
"""Number of demonstrations that are sorted by length together."""
_IGNORED: Final = -100
_STRETCHES: Final = 64
"""Most points of a training's curve."""
_ITERATION: Final = "_zeropower_via_newtonschulz"
"""Function of PyTorch's Muon that is replaced where bfloat16 is slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SftResult:
    """The cost of one training, and the loss it reached."""

    steps: int
    tokens: int
    """Tokens trained on, padding excluded."""
    seconds: float
    loss: float
    """Mean loss of the last tenth of the steps, in nats per completion token."""
    curve: tuple[float, ...]
    """Mean loss of each of up to 64 equal parts of the training."""


def train(
    recipe: Recipe, *, folder: Path, on_step: Callable[[int], None] = lambda step: None
) -> SftResult:
    """Trains a Qwen3 on the recipe's demonstrations and saves it with its tokenizer.

    Muon for the matrices and AdamW for the rest, warm-up, flat to 60 % of the steps, then linear to
    2 %; fp32 weights, bf16 autocast where the CPU computes in it (one without AVX-512 takes twenty
    times as long), loss on completions. The caller's random state is untouched.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    codec = CharCodec(alphabet=recipe.demonstrations.alphabet)
    with torch.random.fork_rng(devices=[]):  # pyright: ignore[reportUnknownMemberType]
        # `torch.manual_seed` would seed the GPUs' generators too, whose state is not put back.
        torch.default_generator.manual_seed(recipe.seed)
        model = _model(recipe, vocab_size=codec.vocab_size).to(device)
        with nullcontext() if _has_bf16() else patch.object(_muon, _ITERATION, orthogonal):
            result = _fit(model, recipe, codec=codec, on_step=on_step)
    model.to("cpu").save_pretrained(folder)
    char_tokenizer(codec.alphabet).save_pretrained(folder)
    return result


def char_tokenizer(alphabet: str) -> Any:
    """A fast tokenizer that gives the same ids as `CharCodec`, without a chat template."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocab = {token: i for i, token in enumerate((*SPECIAL_TOKENS, *alphabet))}
    tokenizer: Any = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    pad, eos, bos, unk = SPECIAL_TOKENS
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=pad,
        eos_token=eos,
        bos_token=bos,
        unk_token=unk,
        clean_up_tokenization_spaces=False,
    )


def _model(recipe: Recipe, *, vocab_size: int) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    pad, eos, bos, _ = range(len(SPECIAL_TOKENS))
    config = Qwen3Config(
        vocab_size=vocab_size,
        hidden_size=recipe.hidden,
        intermediate_size=recipe.mlp,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        head_dim=recipe.head_dim,
        max_position_embeddings=recipe.max_positions,
        tie_word_embeddings=True,
        pad_token_id=pad,
        eos_token_id=eos,
        bos_token_id=bos,
        dtype="float32",
    )
    return Qwen3ForCausalLM(config)


def _fit(
    model: Any, recipe: Recipe, *, codec: CharCodec, on_step: Callable[[int], None]
) -> SftResult:
    optimizers = _optimizers(model, recipe)
    tokens, start = 0, time.perf_counter()
    losses: list[float] = []
    model.train()
    for step, batch in enumerate(itertools.islice(_batches(recipe, codec=codec), recipe.steps)):
        scale = _schedule(step, recipe)
        for group in itertools.chain.from_iterable(o.param_groups for o in optimizers):
            group["lr"] = recipe.lr * scale
        losses.append(_step(model, batch, optimizers=optimizers))
        tokens += sum(len(p) + len(c) for p, c in batch)
        on_step(step + 1)
    tail = losses[-max(1, len(losses) // 10) :]
    stretches = np.array_split(np.array(losses), min(_STRETCHES, len(losses)))
    return SftResult(
        steps=len(losses),
        tokens=tokens,
        seconds=time.perf_counter() - start,
        loss=sum(tail) / len(tail),
        curve=tuple(round(float(part.mean()), 4) for part in stretches),
    )


def _step(model: Any, batch: list[Tokens], *, optimizers: list[torch.optim.Optimizer]) -> float:
    inputs, labels = _collate(batch, device=model.device)
    with torch.autocast(model.device.type, dtype=torch.bfloat16, enabled=_has_bf16()):
        # Right padding needs no attention mask: causal attention never looks at it.
        logits = model(input_ids=inputs, use_cache=False).logits
    # The softmax is in float32, as a log-prob in bfloat16 has two digits or three.
    loss = cross_entropy(
        logits[:, :-1].float().flatten(0, 1), labels[:, 1:].flatten(), ignore_index=_IGNORED
    )
    loss.backward()  # pyright: ignore[reportUnknownMemberType]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


def _has_bf16() -> bool:
    library: Any = torch.ops  # untyped
    return torch.cuda.is_available() or bool(library.mkldnn._is_mkldnn_bf16_supported())


def orthogonal(
    grad: Any, ns_coefficients: tuple[float, float, float], ns_steps: int, eps: float
) -> Any:
    """Muon's Newton-Schulz iteration in float32, where PyTorch's own is in bfloat16."""
    a, b, c = ns_coefficients
    tall = grad.size(0) > grad.size(1)
    found = grad.T if tall else grad
    found = found / found.norm().clamp(min=eps)
    for _ in range(ns_steps):
        gram = found @ found.T
        found = a * found + (b * gram + c * gram @ gram) @ found
    return found.T if tall else found


def _optimizers(model: Any, recipe: Recipe) -> list[torch.optim.Optimizer]:
    named = list(model.named_parameters())
    matrices = [p for n, p in named if p.ndim == 2 and "embed" not in n]
    others = [p for n, p in named if p.ndim != 2 or "embed" in n]
    muon = torch.optim.Muon(
        matrices, lr=recipe.lr, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"
    )
    return [muon, torch.optim.AdamW(others, lr=recipe.lr, betas=(0.9, 0.99), weight_decay=0.0)]


def _schedule(step: int, recipe: Recipe) -> float:
    done = step / recipe.steps
    decay = 1.0 - 0.98 * max(0.0, (done - 0.6) / 0.4)
    return min((step + 1) / recipe.warmup, decay)


def _batches(recipe: Recipe, *, codec: CharCodec) -> Iterator[list[Tokens]]:
    stream = recipe.demonstrations.stream(seed=recipe.seed)
    rng = random.Random(recipe.seed)
    while True:
        pool = [_tokens(d, codec=codec) for d in itertools.islice(stream, _POOL)]
        size = recipe.batch_tokens
        batches = list(bucketed(pool, length=lambda item: sum(map(len, item)), most=size))
        rng.shuffle(batches)
        yield from batches


def _tokens(demonstration: Demonstration, *, codec: CharCodec) -> Tokens:
    completion = (*codec.encode(demonstration.completion), codec.eos_id)
    return codec.prompt(demonstration.prompt), completion


def _collate(batch: list[Tokens], *, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [torch.tensor(prompt + completion) for prompt, completion in batch]
    learned = [torch.tensor((_IGNORED,) * len(p) + c) for p, c in batch]
    inputs = pad_sequence(rows, batch_first=True)
    labels = pad_sequence(learned, batch_first=True, padding_value=_IGNORED)
    return inputs.to(device), labels.to(device)


def main() -> None:
    """Trains one model in this process; see the module."""
    folder = Path(sys.argv[1])
    recipe = pickle.load(sys.stdin.buffer)
    result = train(recipe, folder=folder, on_step=lambda step: print(step, flush=True))
    card = {
        "recipe": asdict(recipe),
        "key": recipe.key,
        "training": asdict(result),
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
    }
    (folder / "gfcr_demo.json").write_text(json.dumps(card, indent=2) + "\n")


if __name__ == "__main__":
    main()
