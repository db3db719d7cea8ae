"""An EAGLE-3 head (arXiv 2503.01840) trained for a few seconds: often right, often wrong.

The layout is that of vLLM's `LlamaForCausalLMEagle3`: one Llama layer that reads the embedding of
the newest token beside a projection of three of the target's hidden states at the token before.
"""

import json
from pathlib import Path
from typing import Any, Final

import safetensors.torch
import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaMLP,
    LlamaRMSNorm,
    LlamaRotaryEmbedding,
)

SEQUENCES: Final = 256
TOKENS: Final = 48
STEPS: Final = 100
BATCH: Final = 64
LR: Final = 3e-3


class _Layer(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        self.self_attn: Any = LlamaAttention(config, layer_idx=0)
        for name in ("q_proj", "k_proj", "v_proj"):
            rows = getattr(self.self_attn, name).out_features
            setattr(self.self_attn, name, nn.Linear(2 * size, rows, bias=False))
        self.mlp = LlamaMLP(config)
        self.input_layernorm = LlamaRMSNorm(size, eps)
        self.hidden_norm = LlamaRMSNorm(size, eps)
        self.post_attention_layernorm = LlamaRMSNorm(size, eps)

    def forward(self, embedded: Tensor, hidden: Tensor, *, rotary: Any) -> Tensor:
        read = torch.cat([self.input_layernorm(embedded), self.hidden_norm(hidden)], -1)
        mixed, _ = self.self_attn(read, position_embeddings=rotary, attention_mask=None)
        hidden = hidden + mixed
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class _Head(nn.Module):
    """Parameters are named as the checkpoint names them."""

    def __init__(self, config: LlamaConfig, *, aux: int) -> None:
        super().__init__()
        size, vocab = config.hidden_size, config.vocab_size
        self.embed_tokens = nn.Embedding(vocab, size)
        self.fc = nn.Linear(aux * size, size, bias=False)
        self.midlayer = _Layer(config)
        self.norm = LlamaRMSNorm(size, config.rms_norm_eps)
        self.lm_head = nn.Linear(size, vocab, bias=False)
        self._rotary = [LlamaRotaryEmbedding(config)]  # in a list: no part of the checkpoint

    def forward(self, tokens_BT: Tensor, aux_BTH: Tensor) -> Tensor:
        hidden, places = self.fc(aux_BTH), torch.arange(tokens_BT.shape[1])[None]
        rotary: Any = self._rotary[0](hidden, places)
        return self.lm_head(
            self.norm(self.midlayer(self.embed_tokens(tokens_BT), hidden, rotary=rotary))
        )


def train(target: Path, *, prompts: list[tuple[int, ...]], folder: Path) -> Path:
    """Trains a head on the target's own samples and saves it to a folder, which is returned.

    Args:
        target: a model of at least four layers.
        prompts: that are sampled from.
        folder: for the head.
    """
    loader: Any = AutoModelForCausalLM
    model: Any = loader.from_pretrained(str(target), dtype=torch.float32).eval()
    config = _config(model.config)
    layers: list[int] = config.eagle_config["eagle_aux_hidden_state_layer_ids"]
    library: Any = torch  # partially typed
    with library.random.fork_rng():
        library.manual_seed(0)
        tokens_BT, aux_BTH, law_BTV = _samples(model, prompts=prompts, layers=layers)
        head = _Head(config, aux=len(layers))
        head.embed_tokens.load_state_dict(model.get_input_embeddings().state_dict())
        head.lm_head.load_state_dict(model.get_output_embeddings().state_dict())
        _fit(head, tokens_BT=tokens_BT, aux_BTH=aux_BTH, law_BTV=law_BTV)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.contiguous() for name, tensor in head.state_dict().items()}
    saving: Any = safetensors.torch  # partially typed
    saving.save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config.to_dict(), indent=1))
    return folder


def _fit(head: _Head, *, tokens_BT: Tensor, aux_BTH: Tensor, law_BTV: Tensor) -> None:
    optimizer: Any = torch.optim.AdamW(head.parameters(), lr=LR)
    for _ in range(STEPS):
        some = torch.randint(len(tokens_BT), (BATCH,))
        said = head(tokens_BT[some], aux_BTH[some]).log_softmax(-1)
        loss = -(law_BTV[some] * said).sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def _samples(
    model: Any, *, prompts: list[tuple[int, ...]], layers: list[int]
) -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, hidden states at the token before each, and the law of the token after each."""
    longest = max(map(len, prompts))
    rows = [prompts[i % len(prompts)] for i in range(SEQUENCES)]
    padded = torch.tensor([[0] * (longest - len(r)) + list(r) for r in rows])
    mask = torch.tensor([[0] * (longest - len(r)) + [1] * len(r) for r in rows])
    made = model.generate(
        padded,
        attention_mask=mask,
        do_sample=True,
        top_k=0,
        max_new_tokens=TOKENS,
        min_new_tokens=TOKENS,
        pad_token_id=0,
    )
    mask = torch.cat([mask, torch.ones(SEQUENCES, made.shape[1] - longest, dtype=mask.dtype)], 1)
    places = (mask.cumsum(1) - 1).clamp(min=0)
    out = model(made, attention_mask=mask, position_ids=places, output_hidden_states=True)
    aux = torch.cat([out.hidden_states[i] for i in layers], -1)
    return made[:, longest:], aux[:, longest - 1 : -1], out.logits[:, longest:].softmax(-1)


def _config(target: Any) -> LlamaConfig:
    num: int = target.num_hidden_layers
    config = LlamaConfig(
        vocab_size=target.vocab_size,
        hidden_size=target.hidden_size,
        intermediate_size=target.intermediate_size,
        num_hidden_layers=1,
        num_attention_heads=target.num_attention_heads,
        num_key_value_heads=target.num_key_value_heads,
        head_dim=target.head_dim,
        max_position_embeddings=target.max_position_embeddings,
        rms_norm_eps=target.rms_norm_eps,
        tie_word_embeddings=False,
        architectures=["LlamaForCausalLMEagle3"],
        dtype="float32",
    )
    extra: Any = config
    extra._attn_implementation = "sdpa"  # causal where no mask is given
    extra.draft_vocab_size = target.vocab_size
    # vLLM's own choice of layers has the same one twice in a target of four.
    extra.eagle_config = {
        "eagle_aux_hidden_state_layer_ids": [1, num // 2, num - 1],
        "use_aux_hidden_state": True,
    }
    return config
