"""Facts about a model folder and counters of steps for the vLLM adapter; imports no vllm."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, final

from gfcr.engine.base import EngineStats
from gfcr.errors import EngineError
from gfcr.process.tokenizer import ends_of, read_json


@final
@dataclass(frozen=True, kw_only=True)
class ModelFolder:
    """A transformers checkpoint on disk that was checked."""

    path: Path
    tensors: frozenset[str]
    """Names of the tensors that a weight sync must bring (a tied output head is not among them)."""
    eos: tuple[int, ...]
    """End-of-sequence tokens that model, generation config or tokenizer declare."""
    max_positions: int | None
    vocab: int


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
    text = cast("dict[str, Any]", config.get("text_config") or config)
    return ModelFolder(
        path=path,
        tensors=_tensors(path, tied=bool(text.get("tie_word_embeddings", True))),
        eos=tuple(sorted(ends_of(path))),
        max_positions=text.get("max_position_embeddings"),
        vocab=int(text["vocab_size"]),
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


def _tensors(path: Path, *, tied: bool) -> frozenset[str]:
    from safetensors import safe_open

    names: set[str] = set()
    for file in path.glob("*.safetensors"):
        opened: Any = safe_open(file, framework="np")
        with opened as tensors:
            names.update(tensors.keys())
    if tied:
        names.discard("lm_head.weight")
    return frozenset(n for n in names if not n.endswith("inv_freq"))


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
