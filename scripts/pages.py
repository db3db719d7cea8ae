"""Runs notebooks as they are; writes each as a Markdown page beside it, figures under `figures/`.

`make pages` does the tutorials; `python scripts/pages.py NOTEBOOK...` those named. Runs lie in
`runs/` as a user's would: finished ones are not run again.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from traitlets.config import Config

ROOT = Path(__file__).resolve().parents[1]
TUTORIALS = Path("docs/tutorials")
WORKSPACE = ROOT / ".cache" / "pages"
KINDS = ["text/markdown", "image/png", "text/html", "text/plain"]
"""What is shown of an output that comes in several kinds, first wins."""


def workspace() -> Path:
    """A copy of the tutorials that may write beside itself, with the checkout's experiments."""
    shutil.rmtree(WORKSPACE, ignore_errors=True)
    shutil.copytree(ROOT / TUTORIALS, WORKSPACE / TUTORIALS)
    for name in ("experiments", "runs"):
        (ROOT / name).mkdir(exist_ok=True)
        (WORKSPACE / name).symlink_to(ROOT / name)
    return WORKSPACE


def write_page(path: Path, *, folder: Path) -> None:
    """Executes a notebook in a folder and writes its page."""
    notebook = nbformat.read(path, as_version=4)
    place = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=None, resources=place).execute()
    settings = Config({"NbConvertBase": {"display_data_priority": KINDS}})
    names = {"output_files_dir": "figures", "unique_key": path.stem}
    body, made = MarkdownExporter(config=settings).from_notebook_node(notebook, resources=names)
    for old in (path.parent / "figures").glob(f"{path.stem}_*"):
        old.unlink()
    for name, figure in made["outputs"].items():
        target = path.parent / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(figure)
    path.with_suffix(".md").write_text(f"{_origin(path)}\n\n{_plain(body)}")


def _origin(path: Path) -> str:
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True)
    return f"<!-- scripts/pages.py wrote this from {path.name} at {commit.strip()} -->"


def _plain(body: str) -> str:
    # Code hosts show a style sheet as text, and a trailing space as nothing.
    body = re.sub(r"<style.*?</style>\n?", "", body, flags=re.DOTALL)
    body = re.sub(r"</?span[^>]*>|(?<=<pre) style=[^>]*", "", body)
    body = re.sub(r"[ \t]+$", "", body, flags=re.MULTILINE)
    parts = re.split(r"(^```python\n.*?^```$)", body, flags=re.MULTILINE | re.DOTALL)
    parts[::2] = [re.sub(r"\n{3,}", "\n\n", text) for text in parts[::2]]
    return "".join(parts).strip() + "\n"


def main() -> int:
    given = [Path(name).resolve() for name in sys.argv[1:]]
    space = workspace()
    for path in given or sorted((ROOT / TUTORIALS).glob("*.ipynb")):
        print(f"running {path.relative_to(ROOT)}", file=sys.stderr, flush=True)
        tutorial = path.parent == ROOT / TUTORIALS
        write_page(path, folder=space / TUTORIALS if tutorial else path.parent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
