"""Facts about a model folder and counters of steps for the vLLM adapter; imports no vllm."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast, final

from gfcr.engine.base import EngineStats
from gfcr.errors import EngineError
from gfcr.process.tokenizer import ends_of, read_json

_OTHERS: Final = re.compile(r"inv_freq$|\.att(?:n|ention)\.(?:masked_)?bias$|(?:^|\.)mtp")
"""Tensors that no trainer loads: what it computes, and heads for further tokens."""
_LAYER: Final = re.compile(r"(?:^|\.)layers\.(\d+)\.")
"""Layers behind the model's last one are such heads, too."""


@final
@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A transformers checkpoint on disk that was checked."""

    path: Path
    tensors: frozenset[str]
    """Names of the tensors that a weight sync must bring, which are those that a trainer loads."""
    eos: tuple[int, ...]
    """End-of-sequence tokens that model, generation config or tokenizer declare."""
    max_positions: int | None
    vocab: int
    nested: bool = False
    """Whether the language model's settings are in the config's `text_config`."""


def open_folder(model: str) -> ModelFolder:
    """Reads what the engine needs to know of a model folder.

    Raises:
        EngineError: the folder is missing or is not a transformers checkpoint.
        TaskError: a file of it is no JSON.
    """
    path = Path(model).expanduser()
    if not path.is_dir():
        raise EngineError(
            f"model '{model}' is not a folder: give the path of a transformers checkpoint "
            "(`hf download NAME --local-dir FOLDER` fetches one)."
        )
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        held = sorted(p.name for p in path.iterdir())[:5]
        raise EngineError(
            f"model folder '{model}' needs config.json and *.safetensors, it holds "
            f"{', '.join(held) or 'nothing'}: save the model with `save_pretrained` first."
        )
    config = read_json(path / "config.json")
    nested = bool(config.get("text_config"))
    text = cast("dict[str, Any]", config["text_config"] if nested else config)
    return ModelFolder(
        path=path,
        tensors=_tensors(path, text=text),
        eos=tuple(sorted(ends_of(path))),
        max_positions=text.get("max_position_embeddings"),
        vocab=int(text["vocab_size"]),
        nested=nested,
    )


def room_of(folder: ModelFolder, *, asked: int | None) -> int:
    """Returns the most tokens of a sequence: `asked`, or the model's own limit.

    Raises:
        EngineError: neither is known, or `asked` exceeds the model's limit.
    """
    limit = folder.max_positions
    found = asked or limit
    if found is None:
        raise EngineError(f"model '{folder.path}' states no length limit: give max_length.")
    if limit is not None and found > limit:
        raise EngineError(
            f"max_length={found} exceeds what model '{folder.path}' was made for "
            f"(max_position_embeddings={limit}): give at most {limit}."
        )
    return found


def _tensors(path: Path, *, text: Mapping[str, Any]) -> frozenset[str]:
    names = _names(path)
    if text.get("tie_word_embeddings", True):
        names.discard("lm_head.weight")
    layers = int(text.get("num_hidden_layers") or len(names))
    behind = {n for n in names if (layer := _LAYER.search(n)) and int(layer[1]) >= layers}
    return frozenset(n for n in names - behind if not _OTHERS.search(n))


def _names(path: Path) -> set[str]:
    """Returns the names in the files that transformers reads; others may be of other formats."""
    from safetensors import safe_open

    whole, index = path / "model.safetensors", path / "model.safetensors.index.json"
    if index.is_file() and not whole.is_file():
        return {*read_json(index)["weight_map"]}
    names: set[str] = set()
    for file in [whole] if whole.is_file() else path.glob("*.safetensors"):
        opened: Any = safe_open(file, framework="np")
        with opened as tensors:
            names.update(tensors.keys())
    return names


def drafts_of(stats: Any) -> EngineStats:
    """Returns the speculation counts of one step's `SchedulerStats`, if it has any."""
    spec = stats and stats.spec_decoding_stats
    if not spec:
        return EngineStats()
    return EngineStats(
        drafts=spec.num_drafts,
        drafted_tokens=spec.num_draft_tokens,
        accepted_tokens=spec.num_accepted_tokens,
        accepted_per_position=tuple(spec.num_accepted_tokens_per_pos),
    )
