"""Tiny random Qwen3 checkpoints: real architecture, real file layout, made in milliseconds."""

from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from gfcr.tasks.chain_sum import ALPHABET
from gfcr.train.sft import char_tokenizer
from tests import perturbed

VOCAB = 20
EOS = 1


def tiny_qwen3(
    folder: Path,
    *,
    seed: int = 0,
    tied: bool = True,
    hidden: int = 64,
    layers: int = 2,
    eos: int | None = EOS,
    max_length: int = 256,
) -> Qwen3ForCausalLM:
    """Saves a float32 checkpoint to `folder` and returns the model.

    Weights are wide (standard deviation 0.3) so that distributions are neither flat nor greedy.
    The same seed gives the same weights; no tokenizer is written.
    """
    config = Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 32,
        num_key_value_heads=hidden // 32,
        head_dim=32,
        max_position_embeddings=max_length,
        tie_word_embeddings=tied,
        initializer_range=0.3,
        eos_token_id=eos,
        bos_token_id=None,
        pad_token_id=0,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config).float().eval()
    perturbed.shift_if_asked(model)
    model.save_pretrained(folder)
    return model


@torch.no_grad()
def reference_logprobs(
    model: Qwen3ForCausalLM, tokens: list[int], *, temperature: float = 1.0
) -> torch.Tensor:
    """Log-probability of each token after the first, shape (len(tokens) - 1,), by transformers."""
    logits = model(torch.tensor([tokens])).logits[0, :-1].float() / temperature
    return logits.log_softmax(-1).gather(1, torch.tensor(tokens[1:])[:, None])[:, 0]


@torch.no_grad()
def entropy_z(
    model: Qwen3ForCausalLM, sequences: list[list[int]], *, prompt: int, temperature: float = 1.0
) -> float:
    """How far the tokens after the first `prompt` are from being samples of the model.

    At each position E[log p(x)] = -H(p) and Var[log p(x)] is known exactly, so that the sum of
    log p(x) + H(p) over its standard deviation is a standard normal when sampling is right.
    The sequences have one length.
    """
    tokens = torch.tensor(sequences)
    logits = model(tokens).logits[:, prompt - 1 : -1].double() / temperature
    logp = logits.log_softmax(-1)
    entropy = -(logp.exp() * logp).sum(-1)
    variance = (logp.exp() * logp.square()).sum(-1) - entropy.square()
    surprise = logp.gather(2, tokens[:, prompt:, None])[..., 0] + entropy
    return float(surprise.sum() / variance.sum().sqrt())


def tiny_chain_sum(folder: Path) -> str:
    """A random Qwen3 that reads and writes chain sums."""
    tiny_qwen3(folder)
    char_tokenizer(ALPHABET).save_pretrained(folder)
    return str(folder)
