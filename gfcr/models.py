"""Models by name: a folder is itself, a demo model is made once and cached, the rest is the Hub."""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from gfcr.errors import ConfigError, did_you_mean
from gfcr.tasks.chain_sum import ChainSum
from gfcr.tasks.demos.base import Recipe
from gfcr.tasks.demos.chain_sum import ChainSumDemonstrations

_TAIL: Final = ChainSumDemonstrations(task=ChainSum(max_terms=20, mean_terms=8.0))

RECIPES: Final[Mapping[str, Recipe]] = {
    r.name: r
    for r in (
        Recipe(
            name="demo",
            about="1.05M parameters, chain sums of 3 to 14 terms",
            demonstrations=ChainSumDemonstrations(),
            steps=640,
            seconds=55,
        ),
        Recipe(
            name="demo-tail",
            about="1.05M parameters, chain sums of 3 to 20 terms: a longer tail",
            demonstrations=_TAIL,
            steps=700,
            seconds=65,
        ),
    )
}


def resolve(name_or_path: str | Path) -> Path:
    """Returns the folder of a model: an existing folder, a demo model, or a Hub download.

    A demo model that is not in the cache is trained first, with a progress bar on stderr.

    Raises:
        ConfigError: there is no such folder, demo model or Hub model.
    """
    given = str(name_or_path)
    if given in RECIPES:
        return _demo(RECIPES[given])
    folder = Path(given).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ConfigError(
                f"model={given}: the folder has no config.json, so it is no saved model. Give the "
                "folder that save_pretrained wrote (for a run's policy: its checkpoint folder)."
            )
        return folder
    if given.count("/") == 1 and not given.startswith((".", "~", "/")):
        return _from_hub(given)
    raise _no_such_model(given)


def cache_folder() -> Path:
    """Where demo models are kept: `GFCR_CACHE`, or the user's cache folder."""
    from platformdirs import user_cache_path

    given = os.environ.get("GFCR_CACHE")
    return Path(given).expanduser() if given else user_cache_path("gfcr")


def _demo(recipe: Recipe) -> Path:
    from filelock import FileLock

    models = cache_folder() / "models"
    folder = models / recipe.key
    if not folder.is_dir():
        models.mkdir(parents=True, exist_ok=True)
        # A second process waits here and then finds the folder the first one made.
        with FileLock(models / f"{recipe.key}.lock"):
            if not folder.is_dir():
                _make(recipe, folder=folder)
    return folder


def _make(recipe: Recipe, *, folder: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix=f".{recipe.key}-", dir=folder.parent))
    try:
        _train(recipe, folder=scratch)
        scratch.chmod(0o755)
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _train(recipe: Recipe, *, folder: Path) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from gfcr.train import sft

    console = Console(stderr=True)
    console.print(
        f"Making the model '{recipe.name}' ({recipe.about}): once, about {recipe.seconds} s on two "
        f"idle cores, then kept in {folder.parent}."
    )
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(recipe.name, total=recipe.steps)
        result = sft.train(
            recipe, folder=folder, on_step=lambda step: progress.update(bar, completed=step)
        )
    card = {"recipe": asdict(recipe), "training": asdict(result)}
    (folder / "gfcr_demo.json").write_text(json.dumps(card, indent=2) + "\n")


def _from_hub(name: str) -> Path:
    import huggingface_hub
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    download: Any = huggingface_hub.snapshot_download  # overloads on types of other libraries
    wanted = ["*.json", "*.safetensors", "*.txt", "*.jinja", "*.model"]
    try:
        return Path(download(name, allow_patterns=wanted))
    except LocalEntryNotFoundError as error:
        raise ConfigError(
            f"model={name} is no folder here, and as a Hub model it is neither in the local cache "
            "nor can the Hub be reached: download it where there is a network "
            f"(hf download {name}) and give its folder, or use one of {_demo_names()}."
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise _no_such_model(name, detail=f" The Hub says: {str(error).strip()}") from error


def _no_such_model(given: str, *, detail: str = "") -> ConfigError:
    return ConfigError(
        f"model={given} is neither a folder nor a known model.{did_you_mean(given, RECIPES)} "
        f"Give a demo model ({_demo_names()}), a folder written by save_pretrained, or a Hub model "
        f"as owner/name.{detail}"
    )


def _demo_names() -> str:
    return ", ".join(RECIPES)
