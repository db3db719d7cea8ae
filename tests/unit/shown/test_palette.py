"""A name has its colour from report to report, and no two of a report look alike."""

import re

from gfcr.shown.palette import BASELINE, arm_looks, bin_looks, style_sheet

BINS = ["evaluation", "rejected:b", "trained", "aborted", "rejected:a", "replayed", "in_flight"]
OFTEN = [
    *("dapo", "dapo_ahead", "dapo_stop", "dr_grpo", "rloo"),
    *("pods", "greso", "repo", "april", "treerl"),
]


def test_no_two_of_a_report_look_alike():
    names = [f"arm{i}" for i in range(40)]
    looks = arm_looks(names, baseline=None)
    assert set(looks) == set(names)
    assert len({(look.name, look.dash) for look in looks.values()}) == 40
    few = arm_looks(names[:10], baseline=None)
    assert len({look.light for look in few.values()}) == 10
    assert {look.dash for look in few.values()} == {()}


def test_an_arm_keeps_its_colour_while_others_come_and_go():
    alone = {name: arm_looks([name], baseline=None)[name] for name in OFTEN}
    assert len({look.name for look in alone.values()}) == 10
    assert arm_looks(alone, baseline=None) == alone
    assert arm_looks([*alone, "grpo"], baseline="grpo") == {**alone, "grpo": BASELINE}


def test_of_two_that_want_one_colour_the_first_by_name_has_it():
    wanted: dict[str, list[str]] = {}
    for name in (f"a{i}" for i in range(11)):  # ten colours: two want the same
        wanted.setdefault(arm_looks([name], baseline=None)[name].name, []).append(name)
    first, second = next(names for names in wanted.values() if len(names) > 1)[:2]
    both = arm_looks([second, first], baseline=None)
    assert both[first] == arm_looks([first], baseline=None)[first]
    assert both[second].name != both[first].name


def test_the_baseline_has_no_hue_and_is_there_only_if_it_is():
    assert arm_looks(["a"], baseline="b").keys() == {"a"}
    values = {BASELINE.light[i : i + 2] for i in (1, 3, 5)}
    assert max(int(v, 16) for v in values) - min(int(v, 16) for v in values) < 16


def test_bins_begin_with_what_was_trained_on_and_share_no_colour_with_arms():
    looks = bin_looks(BINS)
    ends = ["evaluation", "in_flight"]
    assert list(looks) == ["trained", "replayed", "aborted", "rejected:a", "rejected:b", *ends]
    assert len({look.name for look in looks.values()}) == len(BINS)
    arms = arm_looks([f"arm{i}" for i in range(10)], baseline="arm0")
    assert not {a.light for a in arms.values()} & {b.light for b in looks.values()}
    assert bin_looks(["rejected:a"])["rejected:a"].name.startswith("bin-")


def test_a_page_knows_every_colour_in_both_modes():
    sheet = style_sheet()
    looks = [*arm_looks([f"arm{i}" for i in range(10)], baseline="arm0").values()]
    for look in [*looks, *bin_looks(BINS).values()]:
        assert re.findall(rf"--{look.name}: (#\w{{6}});", sheet) == [look.light, look.dark]
