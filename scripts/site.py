"""Builds the documentation site, `build/docs/site/index.html`, read without server or network.

python scripts/site.py [FOLDER]

Pages keep their places in the repository, so that their links hold there and on the site. A linked
source file becomes a page; the API's pages are made from docstrings.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "docs" / "zensical.toml"
API = (
    *("gfcr", "gfcr.strategy", "gfcr.stages", "gfcr.types", "gfcr.handles"),
    *("gfcr.testing.factories", "gfcr.testing.laws", "gfcr.drop_in"),
)
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)(?=[)#])")
# What the search needs where pages are opened from a folder; Zensical would have it fetched.
WORKER = ROOT / "docs" / "theme" / "iframe-worker.js"
FETCHED = "https://unpkg.com/iframe-worker/shim"


def pages() -> list[Path]:
    """Every page of the repository, relative to its root."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("requirements/*.md")]
    found += [*ROOT.glob("docs/**/*.md"), *ROOT.glob("experiments/**/*.md")]
    return sorted(page.relative_to(ROOT) for page in found)


def place(page: Path) -> Path:
    """Where a page of the repository lies among the site's."""
    return Path("index.md") if page == Path("README.md") else page


def gather(into: Path) -> None:
    """Writes the pages, and what they link to, into a folder."""
    for page in pages():
        text = (ROOT / page).read_text()
        linked = LINK.sub(lambda link, page=page: _linked(link[1], page=page, into=into), text)
        _write(into / place(page), linked)
    for name in API:
        _write(into / "docs" / "api" / f"{name}.md", f"# {name}\n\n::: {name}\n")


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site as `folder/site`; a warning is an error."""
    gather(folder / "pages")
    settings = SETTINGS.read_text().replace('paths = ["."]', f'paths = ["{ROOT}"]')
    _write(folder / "zensical.toml", settings)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        _bundle(folder / "site")
    return done


def _linked(target: str, *, page: Path, into: Path) -> str:
    """Where a link of a page leads on the site; what it leads to is put there."""
    path = Path(os.path.normpath(page.parent / target))
    source = ROOT / path
    if path.suffix == ".md":
        return os.path.relpath(place(path), page.parent)
    if path.suffix == ".py":
        _write(into / f"{path}.md", f"# {path}\n\n```python\n{source.read_text()}```\n")
        return f"{target}.md"
    if source.is_file():
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, into / path)
    return target


def _bundle(site: Path) -> None:
    shutil.copy(WORKER, site / "assets" / "javascripts")
    for page in site.rglob("*.html"):
        text = page.read_text()
        if FETCHED in text:
            here = os.path.relpath(site / "assets" / "javascripts" / WORKER.name, page.parent)
            page.write_text(text.replace(FETCHED, here))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "docs"
    shutil.rmtree(folder, ignore_errors=True)
    done = build(folder)
    print(done.stdout, done.stderr)
    print(f"{folder / 'site' / 'index.html'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
