"""The page is one file with all the data in it, and the same bytes for the same table."""

import json
import re
from math import inf
from pathlib import Path

from gfcr.leaderboard import report, to_rich
from gfcr.leaderboard.figures import to_dict
from tests.records import board, compared_by, rowed

ASSETS = Path(report.__file__).parent / "report_assets"
CURVE = [[i, 10 * i, 0.5 * i, 0.25] for i in range(1001)]
ROW = rowed("b", versus=compared_by(0.3), curves={0: CURVE}, series={"m": {0: CURVE[:400]}})


def page(whole, tmp_path):
    written = report.write(whole, path=str(tmp_path / "page.html"))
    assert written == tmp_path / "page.html"
    return written.read_text("utf-8")


def data(text):
    return json.loads(re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', text, re.S)[1])


def test_the_page_holds_its_style_its_scripts_and_the_table(tmp_path):
    whole = board(ROW, rowed("a"), baseline="a", study="<b>&")
    text = page(whole, tmp_path)
    for name in (path.name for path in ASSETS.iterdir() if path.name != "page.html"):
        assert (ASSETS / name).read_text("utf-8") in text
    assert "{{" not in text and "<title>&lt;b&gt;&amp;</title>" in text and "<b>" not in text
    held, table = data(text), to_rich(whole)
    assert held["caption"] == table.caption and held["heads"] == table.data()["heads"]
    assert [row["cells"] for row in held["rows"]] == table.data()["rows"]
    for key in ("study", "baseline", "margin", "excluded"):
        assert held[key] == to_dict(whole)[key]
    assert "<title>no runs</title>" in page(board(study=""), tmp_path)


def test_curves_are_thinned_to_some_points_and_keep_the_last(tmp_path):
    (row,) = data(page(board(ROW), tmp_path))["rows"]
    assert row["curves"] == {"0": [*CURVE[:-1][::3], CURVE[-1]]}
    assert row["series"] == {"m": {"0": CURVE[:400]}}
    longer = rowed("b", series={"m": {0: CURVE[:401]}}, curves={0: [], 1: CURVE[:1], 2: CURVE[:2]})
    (row,) = data(page(board(longer), tmp_path))["rows"]
    assert row["series"]["m"]["0"] == [*CURVE[:400:2], CURVE[400]]
    assert row["curves"] == {"0": [], "1": CURVE[:1], "2": CURVE[:2]}


def test_curves_are_as_exact_as_can_be_seen(tmp_path):
    (row,) = data(page(board(rowed("b", curves={0: [[1, 2 / 3, None]]})), tmp_path))["rows"]
    assert row["curves"] == {"0": [[1, 0.66667, None]]}


def test_scores_have_the_unit_that_the_task_declares(tmp_path):
    units = {None: "mean reward", (0, 1): "share, 0 to 1", (-1, 1): "mean reward, -1 to 1"}
    for bounds, unit in {**units, (-inf, inf): "mean reward"}.items():
        assert data(page(board(ROW, bounds=bounds), tmp_path))["unit"] == unit


def test_nothing_in_the_data_ends_it_or_is_taken_for_a_place_to_fill(tmp_path):
    name = "</script><img src=x>{{style.css}}{{title}}"
    text = page(board(rowed(name)), tmp_path)
    assert "<img" not in text and data(text)["rows"][0]["arm"] == name
    assert page(board(rowed(name)), tmp_path) == text
    assert [*data(text)] == sorted(data(text)), "keys in one order, whatever made them"
