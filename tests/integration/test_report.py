"""The HTML report in a real Chromium: charts, table, keys, links, no console errors, no network.

Twenty seconds.
"""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from gfcr import config as configs
from gfcr import experiment, leaderboard
from gfcr.commands import rendered
from gfcr.engine.fake import Fake
from gfcr.leaderboard import report, shown_rollouts
from gfcr.leaderboard.shown_rollouts import ShownRun
from gfcr.shown.palette import BASELINE, arm_looks, bin_looks
from gfcr.tracking.folder_store import find_folders
from gfcr.tracking.looked_at import LookedAt, look_at
from gfcr.tracking.records import RunRecord
from gfcr.train import sft
from gfcr.types import FinishReason, Prompt, Rollout, Signal
from tests import stores
from tests.cases import over
from tests.certified import certified
from tests.heldout import asked, measured
from tests.launchers import values_of

ARMS = {
    "grpo": (0.62, 1.0, 0.30),
    "dapo": (0.71, 1.6, 0.45),
    "knapsack": (0.70, 0.9, 0.12),
    "replay": (0.64, 0.7, 0.05),
    "short": (0.52, 0.6, 0.20),
    "spec_exact": (0.63, 1.0, 0.30),
}
UPDATES = 40
ONE_UPDATE = {"name": "dry", "max_steps": 1}
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
        params={
            **{"seed": str(seed), "arm": arm, "prompts": "32", "strategy.name": arm},
            **({"strategy.controls.refill.oversample": "1.5"} if arm == "dapo" else {}),
        },
        result={
            "reward_range": [0.0, 1.0],
            "strategy": arm,
            "updates": UPDATES,
            "wall_s": wall,
            "forward_passes": 300 * cost * UPDATES,
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


HOSTILE = "<img src=x onerror=alert(1)>"


def make_rollout(reward, *, advantages, fate="trained", pieces=("7", "+1", HOSTILE, "#8")):
    """A rollout of four tokens, the third of them not the policy's."""
    sampled = [True, True, False, True]
    rollout = Rollout(
        id=f"r{reward}{fate}",
        group_id="g",
        prompt=Prompt(id="p1", tokens=(1,), text=f"7+1= {HOSTILE}", answer="8"),
        tokens_T=np.arange(4, dtype=np.int32),
        logprobs_T=np.zeros(4, np.float32),
        versions_T=np.zeros(4, np.int32),
        mask_T=np.array(sampled),
        spans=(),
        text=f"7+1{HOSTILE}#8",
        finish=FinishReason.STOP,
        step=40,
        reward=reward,
        notes={"rewards/right": reward},
    )
    signal = Signal(reward=reward, advantage=advantages)
    return LookedAt(update=40, rollout=rollout, signal=signal, fate=fate, pieces=pieces)


def make_rollouts():
    by_token = np.array([2, -1, 0, 1], np.float32)
    seen = [
        make_rollout(1.0, advantages=by_token),
        make_rollout(0.0, advantages=-1.0),
        make_rollout(0.5, advantages=None, fate="rejected: zero_variance", pieces=()),
    ]
    return {"dapo": ShownRun(seed=0, rollouts=seen), "grpo": ShownRun(seed=1, rollouts=seen[:2])}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    return report.write(make_board(), path=path, rollouts=make_rollouts()).as_uri()


@pytest.fixture
def page(browser, written):
    browser.get(written)
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
    # It is worse: that it is cheap puts it on no front.
    assert (dapo["Front"], short["Front"]) == ("tokens seconds", UNKNOWN)
    assert "(0/5)" in short["Tokens to target"]
    assert dapo["Seconds to target"].split()[0] not in (UNKNOWN, "")


def test_profiles_and_the_cost_of_the_front_can_be_read(page):
    assert len(page.find_elements("css selector", "#profile polyline")) == len(ARMS)
    page.find_element("css selector", "#profile svg").send_keys("\ue012")
    assert "held-out score" in page.find_element("id", "tip").text
    costs = page.find_elements("css selector", "#pareto .group button")
    next(cost for cost in costs if cost.text == "seconds").click()
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


@pytest.fixture
def emulated(page):
    """Makes the page a screen of another width, or a dark one."""

    def emulate(*, width=1200, scheme="light"):
        size = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": False}
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        dark = [{"name": "prefers-color-scheme", "value": scheme}]
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": dark})

    yield emulate
    page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def wide(page, selector):
    """What a reader sees of an element's width, and what there is."""
    found = page.find_element("css selector", selector)
    return found.get_property("scrollWidth") - found.get_property("clientWidth")


def test_a_phone_has_a_card_for_each_arm_and_nothing_to_scroll_sideways(page, emulated):
    emulated(width=390)
    assert wide(page, "html") <= 0 and wide(page, ".scroll") <= 0
    cell = page.find_element("css selector", "#arms tbody td[data-name=Score]")
    before = "return getComputedStyle(arguments[0], '::before').content"
    assert page.execute_script(before, cell) == '"Score"'
    sorting = page.find_element("id", "sorting")
    heads = page.find_element("css selector", "#arms thead")
    assert sorting.is_displayed() and not heads.is_displayed()
    sorting.find_element("css selector", "option[value='Wasted, falling']").click()
    assert arms(page)[0] == "dapo"
    for row in page.find_elements("css selector", "#forest .row"):
        assert row.rect["x"] >= 0 and row.rect["x"] + row.rect["width"] <= 391


def test_the_table_fits_a_desk(page, emulated):
    emulated(width=1400)
    assert wide(page, ".scroll") <= 0


def test_in_the_dark_ink_is_light_and_arms_have_their_dark_colours(page, emulated):
    def colour(selector, name):
        found = page.find_element("css selector", selector).value_of_css_property(name)
        return [int(n) for n in re.findall(r"\d+", found)[:3]]

    def hexed(look, mode):
        return [int(getattr(look, mode)[i : i + 2], 16) for i in (1, 3, 5)]

    look = arm_looks(["dapo"], baseline=None)["dapo"]
    for scheme in ("light", "dark"):
        emulated(scheme=scheme)
        assert (sum(colour("body", "color")) > sum(colour("body", "background-color"))) == (
            scheme == "dark"
        )
        assert colour("#curves polyline[data-arm=dapo]", "stroke") == hexed(look, scheme)
        assert colour("#curves polyline[data-arm=grpo]", "stroke") == hexed(BASELINE, scheme)


def test_the_forest_plot_comes_first_with_every_difference_and_the_band_of_the_margin(page):
    assert page.find_element("css selector", "main > section").get_attribute("id") == "forest"
    told = [
        r.get_attribute("aria-label") for r in page.find_elements("css selector", "#forest .row")
    ]
    rows = {row.arm: row for row in make_board().rows if row.arm != "grpo"}
    assert [label.partition(":")[0] for label in told] == list(rows)
    for label, row in zip(told, rows.values(), strict=True):
        found = row.versus.comparison.difference
        numbers = [found.value, found.low, found.high]
        minus = label.replace("\u2212", "-")
        assert [float(n) for n in re.findall(r"[-+]?\d\.\d+", minus)] == pytest.approx(
            numbers, abs=6e-4
        )
        assert label.endswith(row.versus.verdict)
    band, zero = (page.find_element("css selector", f"#forest .{c}") for c in ("band", "zero"))
    grid = [
        float(g.get_attribute("x1")) for g in page.find_elements("css selector", "#forest .grid")
    ]
    ticks = [
        t.text.replace("\u2212", "-")
        for t in page.find_elements("css selector", "#forest svg > text")
    ]
    values = [float(t) for t in ticks if re.fullmatch(r"[-+]?[\d.]+", t)]
    unit = (grid[-1] - grid[0]) / (values[-1] - values[0])
    assert float(band.get_attribute("width")) == pytest.approx(0.04 * unit, rel=1e-6)
    middle = float(band.get_attribute("x")) + float(band.get_attribute("width")) / 2
    assert middle == pytest.approx(float(zero.get_attribute("x1")))


def test_every_value_in_which_an_arm_differs_is_told(page):
    def summaries():
        found = page.find_elements("css selector", "#detail summary")
        return {s.find_element("tag name", "b").text: s.text for s in found}

    assert "refill.oversample 1.5" in summaries()["dapo"]
    assert "oversample" not in summaries()["knapsack"]
    page.find_element("css selector", "details[data-arm=dapo] summary").click()
    values = page.find_element("css selector", "details[data-arm=dapo] .values").text
    assert "strategy.controls.refill.oversample 1.5 absent" in values
    page.find_element("css selector", "#against option[value=dapo]").click()
    assert "oversample absent" in summaries()["knapsack"] and "against=dapo" in page.current_url
    assert len(set(summaries().values())) == len(ARMS)


def test_rollouts_are_shown_token_by_token_and_are_text(page):
    def cards():
        return page.find_elements("css selector", "#rollouts article")

    best, worst, rejected = cards()
    assert [c.find_element("css selector", ".chip").text for c in cards()] == [
        "best",
        "worst",
        "rejected",
    ]
    assert "right 1" in best.text and "reward 1" in best.text and HOSTILE in best.text
    tokens = best.find_elements("css selector", ".completion span")
    assert [t.text for t in tokens] == ["7", "+1", HOSTILE, "#8"]
    titles = [t.get_attribute("title") for t in tokens]
    assert titles == ["advantage 2", "advantage -1", "not sampled by the policy", "advantage 1"]
    shades = [t.value_of_css_property("background-color") for t in tokens]
    assert len({*shades[:2], shades[3]}) == 3 and shades[2] == "rgba(0, 0, 0, 0)"
    alike = worst.find_elements("css selector", ".completion span")
    assert {t.get_attribute("title") for t in alike} == {
        "advantage -1",
        "not sampled by the policy",
    }
    assert "rejected: zero_variance" in rejected.text and HOSTILE in rejected.text
    page.find_element("css selector", "#rollouts option[value=grpo]").click()
    assert len(cards()) == 2 and "rollouts=grpo" in page.current_url
    assert not page.find_elements("css selector", "#rollouts img")


def test_a_page_without_rollouts_says_why(browser, tmp_path):
    browser.get(report.write(make_board(), path=tmp_path / "bare.html").as_uri())
    assert "tracking.artifacts" in browser.find_element("id", "rollouts").text


@over("kept", ["all", "results"])
def test_rollouts_are_read_from_the_store_where_it_holds_them(tmp_path, kept):
    uri = stores.sqlite(tmp_path)
    values = values_of(tmp_path / "runs", arm="grpo", study="s", trainer=ONE_UPDATE)
    values["tracking"] = {"name": "mlflow", "uri": uri, "artifacts": kept}
    experiment.run(configs.experiment(values, where="test"))
    board = leaderboard.build(uri)
    found = shown_rollouts.of_store(board, uri=uri)
    assert found.keys() == ({"grpo"} if kept == "all" else set())
    if not found:
        return
    (folder,) = find_folders(tmp_path / "runs")
    own = [*look_at(max((folder / "rollouts").glob("*.parquet")))]
    seen = found["grpo"].rollouts
    assert [r.rollout.id for r in seen] == [r.rollout.id for r in own] and seen
    for each in seen:  # the fake engine's tokens are characters
        assert "".join(each.pieces) == each.rollout.text
        assert len(each.pieces) == len(each.rollout)
    text = report.write(board, path=tmp_path / "r.html", rollouts=found).read_text()
    (card, *_) = json.loads(Page(text).data)["rollouts"]["grpo"]["shown"]
    assert "".join(card["pieces"]) in {r.rollout.text for r in own}
    assert card["reward"] == max(r.rollout.reward for r in own)


def test_prompts_of_the_report_are_what_the_policy_saw(tmp_path):
    """By the arm's model; the tokenizer here has its letters in another order, so that it shows."""
    uri = stores.sqlite(tmp_path)
    values = values_of(tmp_path / "runs", arm="grpo", study="s", trainer=ONE_UPDATE)
    values["tracking"] = {"name": "mlflow", "uri": uri, "artifacts": "all"}
    experiment.run(configs.experiment(values, where="test"))
    board = leaderboard.build(uri)
    plain = shown_rollouts.of_store(board, uri=uri)["grpo"].rollouts
    assert rendered.of_board(board, uri=uri)["grpo"].rollouts[0].rollout.prompt.text in {
        each.rollout.prompt.text for each in plain
    }
    model, alphabet = tmp_path / "model", Fake().alphabet
    sft.char_tokenizer(alphabet[::-1]).save_pretrained(model)
    (model / "config.json").write_text("{}")
    turned = str.maketrans(alphabet, alphabet[::-1])
    for place in (model, tmp_path / "{gone}"):
        (row,) = board.rows
        made = {**row.provenance, "model": str(place), "digest.model": "x"}
        found = rendered.of_board(replace(board, rows=(replace(row, provenance=made),)), uri=uri)
        for each, own in zip(found["grpo"].rollouts, plain, strict=True):
            told, asked = each.rollout.prompt.text, own.rollout.prompt.text
            if place == model:
                assert told == asked.translate(turned) != asked
            else:
                assert told.startswith("(Without special tokens: ") and told.endswith(asked)


def test_a_link_shows_what_was_chosen(page, written):
    page.find_elements("css selector", "#curves .group button")[2].click()
    next(
        b for b in page.find_elements("css selector", "#curves .legend button") if b.text == "short"
    ).click()
    page.find_element("id", "filter").send_keys("re")
    head(page, "Score").find_element("tag name", "button").click()
    page.find_element("css selector", "#series option[value='length/trained/mean']").click()
    page.find_elements("css selector", "#pareto .group button")[-1].click()
    link, shown = page.current_url, arms(page)
    assert link.startswith(written + "#")
    page.get("about:blank")
    page.get(link)
    assert arms(page) == shown and head(page, "Score").get_attribute("aria-sort") == "descending"
    assert "seconds, wall clock" in page.find_element("css selector", "#curves svg").text
    assert "length/trained/mean" in page.find_element("css selector", "#series svg").text
    for chart in ("#curves polyline", "#pareto circle", "#forest .row"):
        drawn = page.find_elements("css selector", chart)
        # The baseline has no row; an arm without a rank is in no trade-off.
        assert len(drawn) == len(ARMS) - 1 - (chart != "#curves polyline")
    chosen = page.find_elements("css selector", "#pareto .group button[aria-pressed=true]")
    assert [b.text for b in chosen] == [
        page.find_elements("css selector", "#pareto .group button")[-1].text
    ]
    page.get(written + "#axis=nonsense&sort=&hide=nobody&at=tip&metric=x")
    assert len(page.find_elements("css selector", "#curves polyline")) == len(ARMS)


def test_data_and_charts_can_be_kept(page, tmp_path):
    where = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.execute_cdp_cmd("Browser.setDownloadBehavior", where)
    for button in ("#csv", "#json", "#forest .save"):
        page.find_element("css selector", button).click()
    from selenium.webdriver.support.ui import WebDriverWait

    names = {"demo.csv", "demo.json", "demo-forest.svg"}
    WebDriverWait(page, 10).until(lambda _: names <= {f.name for f in tmp_path.iterdir()})
    assert (tmp_path / "demo.csv").read_text() == leaderboard.to_csv(make_board())
    data = json.loads((tmp_path / "demo.json").read_text())
    assert data["margin"] == 0.02 and [row["arm"] for row in data["rows"]] == arms(page)
    assert BASELINE.light not in (tmp_path / "demo-forest.svg").read_text()
    assert "var(" not in (tmp_path / "demo-forest.svg").read_text().split("style=")[1]


def test_the_baseline_is_neutral_thick_and_on_top_and_bins_have_their_own_colours(page):
    lines = page.find_elements("css selector", "#curves polyline")
    assert lines[-1].get_attribute("data-arm") == "grpo"
    widths = [float(line.get_attribute("stroke-width")) for line in lines]
    assert widths[-1] > max(widths[:-1])
    drawn = {line.get_attribute("data-arm"): line.get_attribute("stroke") for line in lines}
    looks = arm_looks(ARMS, baseline="grpo")
    assert drawn == {arm: f"var(--{look.name})" for arm, look in looks.items()}
    bins = {
        rect.get_attribute("fill") for rect in page.find_elements("css selector", "#ledger rect")
    }
    names = ["rejected:zero_variance", "aborted", "evaluation", "trained"]
    assert bins == {f"var(--{look.name})" for look in bin_looks(names).values()}
    assert not bins & set(drawn.values())


def test_every_axis_has_its_unit_and_costs_that_differ_come_first(page):
    for section, units in {
        "forest": ["share, 0 to 1"],
        "curves": ["updates", "share, 0 to 1"],
        "ledger": ["generated tokens per run"],
        "pareto": ["a run", "share, 0 to 1"],
        "profile": ["share, 0 to 1", "share of runs"],
        "series": ["updates", "tokens a rollout"],
    }.items():
        text = page.find_element("css selector", f"#{section} svg").text
        assert all(unit in text for unit in units), section
    spread = [
        (max(v) - min(v)) / max(v)
        for cost in page.find_elements("css selector", "#pareto .group button")
        for v in [costs_of(cost.text)]
    ]
    assert spread == sorted(spread, reverse=True) and spread[0] > 0


def costs_of(name):
    """The arms' means of a cost by the name of its button."""
    costs = [row.cost for row in make_board().rows if row.rank is not None]
    of = {"tokens": "rollout_tokens", "seconds": "wall_s", "passes": "forward_passes"}
    return [getattr(cost, of[name]) for cost in costs]


def test_arms_beyond_the_colours_are_told_apart_by_their_lines(browser, tmp_path):
    runs = [replace(make_run("grpo", seed), arm=f"arm{i:02}") for i in range(12) for seed in (0, 1)]
    browser.get(report.write(leaderboard.rank(runs), path=tmp_path / "many.html").as_uri())
    for place in ("#curves .legend .swatch", "#arms tbody .swatch"):
        found = browser.find_elements("css selector", place)
        assert len({s.value_of_css_property("background-image") for s in found}) == 12
    lines = browser.find_elements("css selector", "#curves polyline")
    drawn = [(x.get_attribute("stroke"), x.get_attribute("stroke-dasharray")) for x in lines]
    assert len(set(drawn)) == 12


def test_names_of_points_do_not_cover_each_other(page):
    names = page.find_elements("css selector", "#pareto text.name")
    assert {name.text for name in names} == ARMS.keys() - {"replay"}  # which has no rank
    boxes = [name.rect for name in names]
    for i, a in enumerate(boxes):
        for b in boxes[:i]:
            beside = a["x"] >= b["x"] + b["width"] or b["x"] >= a["x"] + a["width"]
            assert beside or abs(a["y"] - b["y"]) >= 12


def test_the_page_says_what_is_ranked_and_that_nothing_is(browser, tmp_path):
    def lead(runs, **kwargs):
        board = leaderboard.rank(runs, **kwargs)
        browser.get(report.write(board, path=tmp_path / "lead.html").as_uri())
        return browser.find_element("id", "lead").text

    assert "No run" in lead([])
    lost, runs = {"lucky": {f"p{i}": 1 for i in range(30)}}, []
    for arm, seed in [("lucky", 0), ("lucky", 1), ("sure", 0), ("sure", 1)]:
        after = measured(
            {f"p{i}": 0.9 - 0.2 * (arm == "sure") for i in range(50)}, unscorable=lost.get(arm)
        )
        run = make_run("grpo", seed)
        result = run.result | {"heldout": run.result["heldout"] | {"after": after}}
        runs.append(replace(run, arm=arm, run_id=f"{arm}-{seed}", result=result))
    told = lead(runs)
    assert told.startswith("sure has the highest held-out score, 0.700 with unscorable answers at")
    assert lead(runs[2:]).startswith("sure has the highest held-out score, 0.700, from 0.300")
    assert lead(runs[1:]).startswith("Of the ranked arms, sure has the highest held-out score, ")
    lead([replace(run, result=runs[2].result) for run in runs[::2]], baseline="sure")
    (row,) = browser.find_elements("css selector", "#forest .row")
    assert row.get_attribute("aria-label") == "lucky: 0.000 [−∞, ∞], inconclusive"  # noqa: RUF001
    assert browser.get_log("browser") == []
