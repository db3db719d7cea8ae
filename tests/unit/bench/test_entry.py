"""An entry holds what was run and what came out, and is found out when it was changed."""

import functools
import json
from dataclasses import replace

import pytest
import yaml

from benchmarks.entries.again import experiment_of
from benchmarks.entries.entry import entry_of, file_names, pack, read
from gfcr import config, experiment
from gfcr.errors import ConfigError, GfcrError
from gfcr.experiment.provenance import card_of
from gfcr.leaderboard.figures import to_dict
from gfcr.leaderboard.tables import to_markdown
from gfcr.tracking.names import digest, spec_hash
from tests.cases import over
from tests.records import board, rowed, sound

VALUES = {
    **{"study": "sizes", "model": "none", "baseline": "dapo", "minimum_effect": 0.05, "prompts": 4},
    **{"engine": {"name": "fake"}, "trainer": {"name": "dry"}, "tracking": {"name": "local"}},
    "roster": {"seeds": [0, 1], "arms": ["dapo", "grpo (2)"]},
}
FEW = {"name": "dapo", "filters": {"zero_variance": None}, "controls": {"refill": None}}


@functools.cache
def made(arm, seed, **changes):
    """A run with the record that its experiment leaves; settings given as JSON."""
    own = {"arm": arm, "seed": seed, "strategy": FEW if arm == "dapo" else {"name": "grpo"}}
    values = {**VALUES, **own, **{k: json.loads(v) for k, v in changes.items()}}
    resolved = experiment.resolve(config.experiment(values, where=arm))
    card = card_of(resolved.config, spec=resolved.spec, run_id=resolved.run_id)
    run = sound(arm, seed, roster=values["roster"])
    tags = {**card.tags, "gfcr.spec_hash": spec_hash(resolved.spec)}
    return replace(run, run_id=resolved.run_id, spec=resolved.spec, tags=tags)


ARMS = ("dapo", "grpo (2)")


@functools.cache
def study():
    return {arm: [made(arm, seed) for seed in (2, 3)] for arm in ARMS}


PLACE = {
    "task": "t",
    "model": "m",
    "commit": "c0ffee|",
    "code": "k",
    "version.x": "1",
    "digest.y": "d",
}


def whole(**changes):
    rows = [rowed(arm, provenance=PLACE) for arm in ARMS]
    return board(*rows, **{"baseline": "dapo", "comparisons": 1, "notes": ("n",), **changes})


def entry(name="first", *, accepted=(), arms=None, **changes):
    arms = arms or study()
    again = {arm: experiment_of(runs[0]) for arm, runs in arms.items()}
    return entry_of(name, board=whole(**changes), arms=arms, experiments=again, accepted=accepted)


def test_an_entry_holds_the_table_the_answers_and_a_hash_of_it_all():
    made_of = entry(accepted=["seeds: few"])
    content = {**made_of.content}
    assert content.pop("hash") == digest(content)
    rows, data = content.pop("rows"), to_dict(whole())
    own = ("study", "baseline", "margin", "target", "comparisons", "noise_floor")
    assert content == {
        **{"format": 1, "name": "first", "task": "t", "model": "m", "commit": "c0ffee|"},
        **{key: data[key] for key in (*own, "excluded", "missing", "notes")},
        **{"versions": {"version.x": "1"}, "code": "k", "accepted": ["seeds: few"]},
        **{"compares": [], "prompts": ["p", "q"]},
    }
    assert made_of.name == "first" and made_of.table == to_markdown(whole())
    assert made_of.experiments == {arm: experiment_of(study()[arm][0]) for arm in ARMS}
    for row, told in zip(rows, data["rows"], strict=True):
        runs = study()[row["arm"]]
        assert row.pop("spec") == {k: v for k, v in runs[0].spec.items() if k != "seed"}
        assert row.pop("runs") == [
            {
                **{"run_id": run.run_id, "seed": run.seed, "score": 0.5, "wall_s": 9.0},
                **{key: run.result[key] for key in ("tokens", "curve")},
                "answers": pack(run, prompts=["p", "q"]),
            }
            for run in runs
        ]
        left = ("curves", "series", "profile", "notes", "pareto", "run_ids", "settings")
        assert row == {k: v for k, v in told.items() if k not in left}


def test_what_runs_do_not_tell_is_empty_in_an_entry():
    bare = board(rowed("dapo"), baseline="dapo")
    run = study()["dapo"][0]
    less = replace(run, result={k: v for k, v in run.result.items() if k != "curve"})
    content = entry_of("first", board=bare, arms={"dapo": [less]}, experiments={}).content
    told = ("task", "model", "commit", "code", "versions", "accepted")
    assert [content[key] for key in told] == ["", "", "", "", {}, []]
    assert content["rows"][0]["runs"][0]["curve"] == []


def test_an_entry_tells_what_its_baseline_compares():
    arms = {
        arm: [replace(r, tags={**r.tags, "gfcr.compares": f"model {arm[:4]}"}) for r in runs]
        for arm, runs in study().items()
    }
    assert entry(arms=arms).content["compares"] == ["dapo", "model"]
    assert entry(arms=arms, baseline=None).content["compares"] == ["model"]


@over("name", ["../up", "a/b", "", "A", "x" * 101, "a.", "-a", "a b"])
def test_a_name_that_is_no_folder_s_is_refused(name):
    with pytest.raises(ConfigError, match=r"^--name .* is not allowed"):
        entry(name)


def test_what_is_written_is_read_again_and_written_twice_is_the_same(tmp_path):
    one = entry(accepted=["seeds: <few>", "margin: b"])
    place = one.write(tmp_path)
    assert place == tmp_path / "first" and read(place / "entry.json") == one.content
    text = (place / "entry.json").read_text()
    assert text == json.dumps(one.content, indent=1, sort_keys=True) + "\n"
    held = {file: file.read_bytes() for file in place.iterdir()}
    assert {file.name for file in held} == {"README.md", "entry.json", "dapo.yaml", "grpo--2-.yaml"}
    assert one.write(tmp_path) == place
    assert {file: file.read_bytes() for file in place.iterdir()} == held
    with pytest.raises(ConfigError) as error:
        entry(comparisons=9).write(tmp_path)
    told = f"{place} holds another entry: give another --name, or remove it."
    assert str(error.value) == told
    assert (place / "README.md").read_text() == (
        "# first\n\nStudy `study`, task t, model m, commit c0ffee\\|.\n\n"
        f"{one.table}- Accepted by the submitter: seeds: &lt;few&gt;.\n"
        "- Accepted by the submitter: margin: b.\n\n"
        "Run a row again, with any of its seeds:\n\n```bash\n"
        "gfcr run experiments/leaderboard/first/dapo.yaml seed=2\n```\n\n"
        "`entry.json` holds specs, scores by seed, costs and versions; its hash is "
        f"`{one.content['hash'][:12]}`.\n"
    )


def test_every_row_has_a_file_that_asks_for_the_very_run(tmp_path):
    place = entry().write(tmp_path)
    for arm, file in file_names(ARMS).items():
        text = (place / file).read_text()
        head = f"# Row {arm} of the leaderboard entry first, every value resolved.\n"
        assert "seeds: [0, 1]\n" in text, "a list of numbers on one line"
        assert text.startswith(head) and yaml.safe_load(text) == entry().experiments[arm]
        again = experiment.resolve(config.read_experiment(place / file))
        assert again.run_id == study()[arm][0].run_id


def test_an_experiment_says_what_the_study_said_and_removes_what_the_run_had_not():
    run = made("dapo", 0)
    values = experiment_of(run)
    assert values["roster"] == VALUES["roster"]
    assert {key: values[key] for key in ("baseline", "minimum_effect", "metric")} == {
        **{"baseline": "dapo", "minimum_effect": 0.05},
        "metric": "heldout/accuracy",
    }
    strategy = values["strategy"]
    assert strategy["filters"]["zero_variance"] is strategy["controls"]["refill"] is None
    bare = replace(run, tags={k: v for k, v in run.tags.items() if "minimum" not in k})
    unsaid = replace(bare, tags={**bare.tags, "gfcr.baseline": ""})
    assert not {"baseline", "minimum_effect"} & {*experiment_of(unsaid)}
    lone = replace(run, result={k: v for k, v in run.result.items() if k != "roster"})
    assert experiment_of(lone)["roster"] == {}


def test_a_replay_that_the_run_had_removed_is_removed_again():
    removed = {"name": "april", "replays": {"partial_rollouts": None}}
    values = experiment_of(made("grpo (2)", 0, strategy=json.dumps(removed)))
    assert values["strategy"]["replays"] == {"partial_rollouts": None}


def test_a_row_that_cannot_be_run_again_is_refused_with_the_reason():
    run = made("dapo", 1)
    with pytest.raises(ConfigError) as error:
        experiment_of(replace(run, spec=None))
    assert str(error.value) == (
        "dapo, seed 1: the store holds no spec.yaml, so it cannot be run again."
    )
    odd = {**run.spec, "sampling": {"max_tokens": 256}}
    with pytest.raises(ConfigError) as error:
        experiment_of(replace(run, spec=odd))
    assert str(error.value) == (
        f"dapo, seed 1: what its record asks for resolves to spec {spec_hash(run.spec)} in this "
        f"version of gfcr, not to {spec_hash(odd)}: submit with the version that ran it."
    )
    with pytest.raises(ConfigError, match=r"^dapo, seed 1\.prompts=0 is not allowed"):
        experiment_of(replace(run, spec={**run.spec, "prompts": 0}))
    untagged = {k: v for k, v in run.tags.items() if k != "gfcr.controls"}
    assert run.tags["gfcr.controls"] == "" and experiment_of(replace(run, tags=untagged))
    for stage in ("filters", "controls"):
        other = replace(run, tags={**run.tags, f"gfcr.{stage}": "x+y"})
        with pytest.raises(ConfigError) as error:
            experiment_of(other)
        told = f"dapo, seed 1: the order of its {stage} cannot be told from its record."
        assert str(error.value) == told


def test_what_is_no_entry_or_was_changed_is_not_read(tmp_path):
    file = tmp_path / "entry.json"
    for text in (None, "{", "[]", "{}"):
        if text is not None:
            file.write_text(text)
        with pytest.raises(GfcrError, match=r"entry\.json") as error:
            read(file)
        assert "was changed" not in str(error.value)
        if text == "[]":
            told = f"{file} is no entry of the leaderboard: {file}=[] is not allowed"
            assert str(error.value).startswith(told)
    content = {"name": "é", "hash": digest({"name": "é"})}
    file.write_text(json.dumps(content, ensure_ascii=False), "utf-8")
    assert read(file) == content
    file.write_text(json.dumps({**content, "name": "e"}))
    with pytest.raises(GfcrError) as error:
        read(file)
    told = f"{file} was changed after it was written: its hash is not {content['hash'][:12]}."
    assert str(error.value) == told


def test_files_are_all_different_where_names_know_no_case():
    pair = file_names(["a b", "A-b"])
    assert pair == {arm: f"{arm.replace(' ', '-')}-{digest(arm)[:6]}.yaml" for arm in pair}
    names = file_names(["a b", "a-b", "A-B", "c+1", "d_.X"])
    assert names["c+1"] == "c+1.yaml" and names["d_.X"] == "d_.X.yaml"
    for arm, plain in (("a b", "a-b"), ("a-b", "a-b"), ("A-B", "A-B")):
        assert names[arm] == f"{plain}-{digest(arm)[:6]}.yaml"
    taken = names["a b"].removesuffix(".yaml")
    with pytest.raises(ConfigError) as error:
        file_names(["a b", "a-b", taken])
    assert str(error.value) == f"arms a b, a-b, {taken} share a file name: rename one of them."
