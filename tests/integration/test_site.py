"""The documentation site: built without a warning, whole, and read without network."""

import importlib.util
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_script", ROOT / "scripts" / "site.py")
    assert spec and spec.loader
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module")
def built(site: ModuleType, folder: Path) -> subprocess.CompletedProcess[str]:
    return site.build(folder)


def test_the_site_is_built_without_a_warning(built: subprocess.CompletedProcess[str]) -> None:
    assert built.returncode == 0, f"{built.stdout[-1000:]}\n{built.stderr[-3000:]}"
    assert built.stderr.strip() == "No issues found"


def test_pages_fetch_nothing(built: subprocess.CompletedProcess[str], folder: Path) -> None:
    fetched = re.compile(
        r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//"
    )
    styled = re.compile(r"(?:@import|url\()\s*[\"']?(?:https?:)?//")
    pages = [*(folder / "site").rglob("*.html")]
    assert len(pages) > 40
    for page in pages:
        assert not (found := fetched.search(page.read_text())), f"{page}: {found}"
    for sheet in (folder / "site").rglob("*.css"):
        assert not (found := styled.search(sheet.read_text())), f"{sheet}: {found}"


def test_the_api_s_pages_have_what_docstrings_say(
    built: subprocess.CompletedProcess[str], folder: Path
) -> None:
    api = folder / "site" / "docs" / "api"
    for name, words in {
        "gfcr": "Opens a study",
        "gfcr.strategy": "How rollouts are generated, filtered, controlled and replayed",
        "gfcr.drop_in": "whose rollouts, filters, advantages and replay",
    }.items():
        assert words in re.sub(r"<[^>]+>", "", (api / f"{name}.html").read_text()), name


def entries(nav: Any) -> Iterator[str]:
    """The pages that a navigation names."""
    if isinstance(nav, str):
        yield nav
    else:
        for child in nav.values() if isinstance(nav, dict) else nav:
            yield from entries(child)


def test_every_page_is_in_the_navigation(site: ModuleType) -> None:
    nav = [*entries(tomllib.loads(site.SETTINGS.read_text())["project"]["nav"])]
    pages = {site.place(page).as_posix() for page in site.pages()}
    api = {f"docs/api/{name}.md" for name in site.API}
    assert sorted(nav) == sorted(pages | api), "name each page once in docs/zensical.toml"
