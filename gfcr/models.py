"""Models by name: a folder is itself, a demo model is here or made once, the rest is the Hub."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from gfcr.errors import ConfigError, did_you_mean, near_file
from gfcr.tasks.demos.base import Recipe
from gfcr.tasks.demos.training import train

DEMOS: Final[dict[str, str]] = {
    **dict.fromkeys(("demo", "demo-tail", "demo-30m", "demo-draft"), "chain_sum"),
    "demo-draft-generic": "facts",
    "demo-ascii": "reasoning_gym",
    "demo-programs": "programs",
}
"""Demo models, and the module of `gfcr.tasks.demos` that has the recipe of each."""
SHIPPED: Final = Path(__file__).parent / "tasks" / "demos" / "demo_assets"
"""Demo models whose weights are part of the package; `scripts/demo_weights.py` makes them."""
_MODEL_FILES: Final = (".safetensors", ".bin", ".json", ".txt", ".jinja", ".model")
_BLOCKS: Final = 64
_BLOCK: Final = 1 << 20


def recipe(name: str) -> Recipe:
    """Returns the recipe of a demo model; what other models are taught is not imported."""
    recipes = import_module(f"gfcr.tasks.demos.{DEMOS[name]}").RECIPES
    return next(each for each in recipes if each.name == name)


def resolve(name_or_path: str | Path) -> Path:
    """Returns the folder of a model: an existing folder, a demo model, or a Hub download.

    The small demo models come with gfcr, so that they are the same on every machine. Another one
    that is not in the cache is trained first, with a progress bar on stderr.

    Raises:
        ConfigError: there is no such folder, demo model or Hub model.
    """
    given = str(name_or_path)
    if given in DEMOS:
        return _shipped(given) or _demo(recipe(given))
    return _local(given) or _from_hub(given)


def here(name_or_path: str | Path) -> Path | None:
    """Returns the folder of a model that is on this machine: none is made or downloaded.

    Raises:
        ConfigError: as `resolve`, where no Hub has to be asked for that.
    """
    given = str(name_or_path)
    if given in DEMOS:
        made = cache_folder() / "models" / recipe(given).key
        return _shipped(given) or (made if made.is_dir() else None)
    return _local(given) or _downloaded(given)


def _shipped(name: str) -> Path | None:
    """Returns the folder of a demo model that comes with gfcr, or with `GFCR_DEMO_MODELS`.

    Raises:
        ConfigError: that folder lacks one that comes with gfcr.
    """
    own, ours = os.environ.get("GFCR_DEMO_MODELS"), SHIPPED / name
    folder = Path(own) / name if own else ours
    if folder.is_dir():
        return folder
    if ours.is_dir():
        raise ConfigError(
            f"GFCR_DEMO_MODELS={own}: there is no {name}. Give a folder that has the models of "
            f"{SHIPPED}, or leave it unset."
        )
    return None


def _local(given: str) -> Path | None:
    """The model's folder; None for what may be a Hub id."""
    folder = Path(given).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigError(
                f"model={given}: the folder has no config.json, so it is no saved model. Give the "
                "folder that save_pretrained wrote (for a run's policy: its checkpoint folder)."
            )
        for file in weight_files(folder):
            _check_weights(file, of=given)
        return folder
    beside = folder.parent.is_dir() and folder.parent != Path()
    if beside or given.count("/") != 1 or given.startswith((".", "~", "/")):
        hub = f" For the Hub's model, give the folder that `hf download {given}` prints."
        raise _no_such_model(
            given, near=near_file(folder), detail=hub if given.count("/") == 1 and beside else ""
        )
    return None


def _check_weights(file: Path, *, of: str) -> None:
    """Refuses a file that is cut short, or stands for weights that Git LFS has not fetched."""
    import safetensors

    opened: Any = safetensors.safe_open  # partially typed
    try:
        opened(file, framework="numpy")
    except (safetensors.SafetensorError, OSError) as error:
        raise ConfigError(
            f"model={of}: {file.name} is no file of weights ({error}). Save or download the model "
            "again; in a Git clone, `git lfs pull` fetches them."
        ) from error


def weights_of(name_or_path: str) -> int | None:
    """Returns the bytes of a model's weights; None where they are not here to be counted."""
    if name_or_path in DEMOS:
        return 4 * recipe(name_or_path).parameters
    files = weight_files(Path(name_or_path).expanduser())
    return sum(file.stat().st_size for file in files) or None


def weight_files(folder: Path) -> list[Path]:
    """Returns the files of weights that transformers reads; others may hold them a second time."""
    return [*folder.glob("model*.safetensors")] or [*folder.glob("*.safetensors")]


def digest_of(folder: Path) -> str:
    """Returns sixteen digits of a model's files: weights, configuration, tokenizer and template.

    Of a file over 64 MiB its size counts and 64 blocks of 1 MiB spread over it: training changes
    all weights, and reading all of a large model takes minutes. Folders below are no part of the
    model: runs may lie there.
    """
    total = hashlib.sha256()
    for file in sorted(f for f in folder.iterdir() if f.suffix in _MODEL_FILES and f.is_file()):
        total.update(f"{file.name} {file.stat().st_size}\n".encode())
        for block in _blocks(file):
            total.update(block)
    return total.hexdigest()[:16]


def _blocks(file: Path) -> Iterator[bytes]:
    size = file.stat().st_size
    if size <= _BLOCKS * _BLOCK:
        yield file.read_bytes()
        return
    with file.open("rb") as held:
        for number in range(_BLOCKS):
            held.seek((size - _BLOCK) * number // (_BLOCKS - 1))
            yield held.read(_BLOCK)


def cache_folder() -> Path:
    """Where demo models are kept: `GFCR_CACHE`, or the user's cache folder."""
    from platformdirs import user_cache_path

    given = os.environ.get("GFCR_CACHE")
    return Path(given).expanduser() if given else user_cache_path("gfcr")


def _demo(of: Recipe) -> Path:
    from filelock import FileLock

    models = cache_folder() / "models"
    folder = models / of.key
    if not folder.is_dir():
        models.mkdir(parents=True, exist_ok=True)
        # A second process waits here and then finds the folder the first one made.
        with FileLock(models / f"{of.key}.lock"):
            if not folder.is_dir():
                _make(of, folder=folder)
    return folder


def _make(of: Recipe, *, folder: Path) -> None:
    """Trains in a scratch folder and renames it when it is whole. The caller holds the lock."""
    for abandoned in folder.parent.glob(f".{of.key}-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{of.key}-", dir=folder.parent))
    try:
        train(of, folder=scratch)
        scratch.chmod(0o755)
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _from_hub(name: str) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    library: Any = huggingface_hub  # partially typed
    wanted = ["*.json", "*.safetensors", "*.txt", "*.jinja", "*.model"]
    # The same weights once more, as their makers' own code reads them.
    again = ["consolidated*", "original/*"]
    try:
        found = library.snapshot_download(name, allow_patterns=wanted, ignore_patterns=again)
        return Path(found)
    except LocalEntryNotFoundError as error:
        raise ConfigError(
            f"model={name} is no folder here, and as a Hub model it is neither in the local cache "
            "nor can the Hub be reached: download it where there is a network "
            f"(hf download {name}) and give its folder, or use one of {_demo_names()}."
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise _no_such_model(name, detail=f" The Hub says: {str(error).strip()}") from error


def _downloaded(name: str) -> Path | None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    library: Any = huggingface_hub  # partially typed
    try:
        return Path(library.snapshot_download(name, local_files_only=True))
    except (LocalEntryNotFoundError, ValueError):
        return None


def _no_such_model(given: str, *, near: str = "", detail: str = "") -> ConfigError:
    near = did_you_mean(given, DEMOS) or near
    return ConfigError(
        f"model={given} is neither a folder nor a known model.{near} Give a demo model "
        f"({_demo_names()}), a folder written by save_pretrained, or a Hub model as owner/name."
        f"{detail}"
    )


def _demo_names() -> str:
    return ", ".join(DEMOS)
