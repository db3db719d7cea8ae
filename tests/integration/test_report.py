"""The HTML report in a real Chromium: sorting, keys, no console errors, no network. Ten seconds."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from gfcr import leaderboard
from gfcr.leaderboard import report
from gfcr.tracking.records import RunRecord
from tests.certified import certified
from tests.heldout import asked, measured

ARMS = {
    "grpo": (0.62, 1.0, 0.30),
    "dapo": (0.71, 1.6, 0.45),
    "knapsack": (0.70, 0.9, 0.12),
    "replay": (0.64, 0.7, 0.05),
    "short": (0.52, 0.6, 0.20),
    "spec_exact": (0.63, 1.0, 0.30),
}
UPDATES = 40
UNKNOWN = "\u2013"


def make_run(arm, seed):
    """A run that looks like one: a saturating curve with the arm's cost and the seed's luck."""
    end, cost, waste = ARMS[arm]
    rng = np.random.default_rng([list(ARMS).index(arm), seed])
    luck, share = rng.normal(0, 0.012), np.linspace(0, 1, 11)
    scores = 0.3 + (end + luck - 0.3) * (1 - np.exp(-4 * share)) / (1 - np.exp(-4))
    scores += rng.normal(0, 0.006, 11)
    total = int(800_000 * cost * rng.uniform(0.97, 1.03))
    dead, aborted, evaluation = int(total * waste), total // 40, total // 10
    bins = {"rejected:zero_variance": dead, "aborted": aborted, "evaluation": evaluation}
    bins["trained"] = total - sum(bins.values())
    wall = 58 * cost * rng.uniform(0.95, 1.05)
    steps = np.arange(1, UPDATES + 1)
    length = 20 + 8 * (1 - np.exp(-steps / 12)) + rng.normal(0, 0.4, UPDATES)
    trained = length + (3 if arm == "dapo" else 0)
    prompts = {f"p{i}": float(scores[-1]) for i in range(50)}
    tags = {
        "gfcr.generate": "sample",
        "gfcr.filters": "zero_variance, group_advantage",
        "gfcr.controls": "refill" if arm == "dapo" else "",
        "gfcr.replays": "buffer" if arm == "replay" else "",
        "gfcr.task": "chain_sum",
        "gfcr.model": "qwen3-1m",
        "gfcr.spec_hash": f"{len(arm):06d}",
        "gfcr.commit": "0123abc",
        "gfcr.version.vllm": "0.32.0",
    }
    record = RunRecord(
        run_id=f"{arm}-{seed}",
        study="demo",
        arm=arm,
        seed=seed,
        status="failed" if (arm, seed) == ("replay", 4) else "finished",
        tags=tags,
        params={},
        result={
            "strategy": arm,
            "updates": UPDATES,
            "wall_s": wall,
            "r_gen": 0.62,
            "rollout_tokens_per_s": total / wall / 0.62,
            "heldout": {
                "asked": asked(50),
                "before": measured(dict.fromkeys(prompts, 0.3)),
                "after": measured(prompts),
            },
            "tokens": {"generated": total, **bins, "remainder": 0},
            "curve": [
                [float(s * UPDATES), float(s * total), float(s * wall), float(y)]
                for s, y in zip(share, scores, strict=True)
            ],
        },
        series={
            "length/all/mean": tuple(zip(steps.tolist(), length.tolist(), strict=True)),
            "length/trained/mean": tuple(zip(steps.tolist(), trained.tolist(), strict=True)),
            "length/all/p99": tuple(zip(steps.tolist(), (2.1 * length).tolist(), strict=True)),
            "speculation/acceptance_length": ((1, 2.0), (2, 2.5)),
            "engine/forward_passes": tuple((int(s), 300 * cost) for s in steps),
        },
    )
    return certified(record, "lossless") if arm == "spec_exact" else record


def make_board(**kwargs):
    runs = [make_run(arm, seed) for arm in ARMS for seed in range(5)]
    return leaderboard.rank(runs, baseline="grpo", **kwargs)


class Page(HTMLParser):
    """Collects what a page would load from elsewhere, and its embedded data."""

    def __init__(self, text):
        super().__init__()
        self.loads, self.data, self._in_data = [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        named = dict(attrs)
        self._in_data = named.get("id") == "data"
        given = [v for k, v in attrs if k in ("src", "href") and v != "data:,"]
        self.loads += given

    def handle_data(self, data):
        self.data += data if self._in_data else ""

    def handle_endtag(self, tag):
        self._in_data = False


def test_the_file_holds_everything_and_loads_nothing(tmp_path):
    board = make_board()
    text = report.write(board, path=tmp_path / "report.html").read_text()
    page = Page(text)
    assert page.loads == []
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest", text)
    assert "{{" not in text
    held = json.loads(page.data)
    assert [row["arm"] for row in held["rows"]] == [row.arm for row in board.rows]


def test_the_same_leaderboard_gives_the_same_bytes(tmp_path):
    first = report.write(make_board(), path=tmp_path / "a.html").read_bytes()
    assert report.write(make_board(), path=tmp_path / "b.html").read_bytes() == first


def test_names_cannot_leave_the_data_element(tmp_path):
    run = make_run("grpo", 0)
    object.__setattr__(run, "arm", "</script><img src=x onerror=alert(1)>")
    object.__setattr__(run, "study", "<b>study</b>")
    text = report.write(leaderboard.rank([run]), path=tmp_path / "r.html").read_text()
    assert "<img" not in text
    assert "<b>study</b>" not in text


@pytest.fixture
def page(browser, tmp_path):
    browser.get(report.write(make_board(), path=tmp_path / "report.html").as_uri())
    yield browser
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def arms(page):
    return [cell.text for cell in page.find_elements("css selector", "#arms tbody th")]


def head(page, name):
    cells = page.find_elements("css selector", "#arms thead th")
    return next(cell for cell in cells if cell.text.startswith(name))


def test_headers_sort_both_ways_and_say_so(page):
    assert arms(page)[0] == "dapo"
    assert head(page, "Rank").get_attribute("aria-sort") == "ascending"
    wasted = head(page, "Wasted")
    wasted.find_element("tag name", "button").click()
    falling = arms(page)
    assert falling[0] == "dapo"
    wasted.find_element("tag name", "button").click()
    assert arms(page)[0] == "replay"
    assert wasted.get_attribute("aria-sort") == "ascending"
    assert head(page, "Rank").get_attribute("aria-sort") == "none"


def cells(page, arm):
    """An arm's cells by the name of their column."""
    names = [h.text for h in page.find_elements("css selector", "#arms thead th")]
    for row in page.find_elements("css selector", "#arms tbody tr"):
        texts = [cell.text for cell in row.find_elements("css selector", "th, td")]
        if arm in texts:
            return dict(zip(names, texts, strict=True))
    raise AssertionError(arm)


def test_a_row_shows_certificate_target_front_and_bias(page):
    speculating, dapo, short = (cells(page, arm) for arm in ("spec_exact", "dapo", "short"))
    assert (speculating["Certificate"], dapo["Certificate"]) == ("lossless", UNKNOWN)
    assert "length" in dapo["Bias"] and speculating["Bias"] == UNKNOWN
    assert "tokens" in short["Front"] and "(0/5)" in short["Tokens to target"]
    assert dapo["Seconds to target"].split()[0] not in (UNKNOWN, "")


def test_profiles_and_the_cost_of_the_front_can_be_read(page):
    assert len(page.find_elements("css selector", "#profile polyline")) == len(ARMS)
    page.find_element("css selector", "#profile svg").send_keys("\ue012")
    assert "held-out score" in page.find_element("id", "tip").text
    page.find_elements("css selector", "#pareto .group button")[1].click()
    assert "seconds" in page.find_element("css selector", "#pareto svg").text


def test_sorting_and_reading_values_work_from_the_keyboard(page):
    button = head(page, "Arm").find_element("tag name", "button")
    button.send_keys("\n")
    assert arms(page) == sorted(ARMS, reverse=True)
    chart = page.find_element("css selector", "#curves svg")
    chart.send_keys("\ue012")  # arrow left
    tip = page.find_element("id", "tip")
    assert "updates" in tip.text
    assert all(name in tip.text for name in ARMS)


def test_the_table_can_be_filtered_by_words(page):
    field = page.find_element("id", "filter")
    field.send_keys("Better Refill")
    assert arms(page) == ["dapo"]
    assert page.find_element("id", "shown").text == f"1 of {len(ARMS)} arms"
    field.clear()
    field.send_keys("lossless")
    assert arms(page) == ["spec_exact"]
    head(page, "Score").find_element("tag name", "button").click()
    assert arms(page) == ["spec_exact"]
    for _ in "lossless":
        field.send_keys("\ue003")  # backspace
    assert len(arms(page)) == len(ARMS) and page.find_element("id", "shown").text == ""


def test_hovering_shows_values(page):
    from selenium.webdriver import ActionChains

    for chart, said in (
        ("#curves svg", "updates"),
        ("#ledger rect", "%"),
        ("#pareto circle", "score"),
    ):
        target = page.find_element("css selector", chart)
        page.execute_script("arguments[0].scrollIntoView({block: 'center'})", target)
        ActionChains(page).move_to_element(target).perform()
        tip = page.find_element("id", "tip")
        assert tip.is_displayed() and said in tip.text
    ActionChains(page).move_to_element(page.find_element("css selector", "h1")).perform()
    assert not page.find_element("id", "tip").is_displayed()


def test_the_axis_can_be_changed_and_arms_hidden(page):
    def lines():
        return page.find_elements("css selector", "#curves polyline")

    assert len(lines()) == len(ARMS)
    buttons = page.find_elements("css selector", "#curves .group button")
    buttons[1].click()
    assert "generated tokens" in page.find_element("css selector", "#curves svg").text
    page.find_element("css selector", "#curves .legend button").click()
    assert len(lines()) == len(ARMS) - 1


def test_a_narrow_window_does_not_scroll_sideways(page):
    page.set_window_size(500, 900)
    width = page.execute_script("return [document.body.scrollWidth, window.innerWidth]")
    page.set_window_size(1200, 900)
    assert width[0] <= width[1]


def test_arms_beyond_the_colours_are_told_apart_by_their_lines(browser, tmp_path):
    runs = [replace(make_run("grpo", seed), arm=f"arm{i:02}") for i in range(10) for seed in (0, 1)]
    browser.get(report.write(leaderboard.rank(runs), path=tmp_path / "many.html").as_uri())
    for place in ("#curves .legend .swatch", "#arms tbody .swatch"):
        found = browser.find_elements("css selector", place)
        assert len({s.value_of_css_property("background-image") for s in found}) == 10
    lines = browser.find_elements("css selector", "#curves polyline")
    drawn = [(x.get_attribute("stroke"), x.get_attribute("stroke-dasharray")) for x in lines]
    assert len(set(drawn)) == 10


def test_names_of_points_do_not_cover_each_other(page):
    names = page.find_elements("css selector", "#pareto text.name")
    assert {"dapo", "short"} <= {name.text for name in names}
    boxes = [name.rect for name in names]
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            beside = a["x"] >= b["x"] + b["width"] or b["x"] >= a["x"] + a["width"]
            assert beside or abs(a["y"] - b["y"]) >= 12


def test_an_empty_leaderboard_is_a_page_too(browser, tmp_path):
    browser.get(report.write(leaderboard.rank([]), path=tmp_path / "empty.html").as_uri())
    assert "No run" in browser.find_element("id", "lead").text
    assert browser.get_log("browser") == []
