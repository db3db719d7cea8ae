"""Input of every kind: refused before anything starts, by name; or it is what runs."""

import json
import math
import random
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from gfcr import cli, experiment, sweep
from gfcr import config as configs
from gfcr.errors import GfcrError
from gfcr.experiment.check import check
from gfcr.leaderboard.where import Where
from tests.campaign import inputs
from tests.campaign.inputs import Case

AREA = "bad input"
LIMIT_S = 20
STUDY = {"seeds", "arms", "factors", "design", "launcher", "stopping", "search"}


@contextmanager
def _time_bound() -> Iterator[None]:
    def late(*_: object) -> None:
        raise TimeoutError(f"no answer within {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, late)
    left, _ = signal.setitimer(signal.ITIMER_REAL, LIMIT_S)  # pytest-timeout has it, too
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, left)


def _sample(cases: Sequence[Any], *, whole: bool, num: int, seed: int = 0) -> list[Any]:
    return list(cases) if whole else random.Random(seed).sample(list(cases), min(num, len(cases)))


def _file(values: Mapping[str, Any], folder: Path, name: str = "x.yaml") -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(dict(values), allow_unicode=True), errors="surrogatepass")
    return path


def _accepted(path: Path, *, study: bool) -> list[experiment.Resolved]:
    """What `gfcr run` and `gfcr sweep` do before anything starts."""
    if study:
        trials = sweep.load(path, overrides=[]).trials
        return [experiment.resolve(t.config) for t in trials]
    resolved = experiment.resolve(configs.read_experiment(path))
    check(resolved)
    return [resolved]


def _problem(case: Case, folder: Path) -> str | None:
    """What is wrong with the answer to a case; None where it was right."""
    path = _file({"folder": str(folder / "runs"), **case.values}, folder)
    try:
        with _time_bound():
            accepted = _accepted(path, study=bool(case.values.keys() & STUDY))
    except GfcrError as error:
        return _unnamed(case, str(error), path=path)
    except BaseException as error:
        return f"{case}: {type(error).__name__}: {str(error)[:200]}"
    return next((p for r in accepted if (p := _unsound(case, r))), None)


def _unnamed(case: Case, message: str, *, path: Path) -> str | None:
    words = {case.path[-1], *(str(w) for w in case.path[-2:-1]), path.name}
    if not any(word in message for word in words) or len(message) > 5000:
        return f"{case}: the message names neither key nor file: {message[:200]}"
    return None


def _unsound(case: Case, resolved: experiment.Resolved) -> str | None:
    """An accepted value is the very one in the record, and no number there is out of hand."""
    spec = resolved.spec
    for value in _scalars(spec):
        if isinstance(value, float) and not math.isfinite(value):
            return f"{case}: accepted, and the record holds {value}"
        if isinstance(value, int) and abs(value) >= 2**63:
            return f"{case}: accepted, and the record holds {value}"
        if isinstance(value, str) and ("\0" in value or "${" in value):
            return f"{case}: accepted, and the record holds {value[:50]!r}"
    if case.path[0] in STUDY or case.path[0] in ("folder", "tracking", "compares", "baseline"):
        return None
    if case.path[0] in ("metric", "minimum_effect", "arm") or case.path[-1] == "name":
        return None
    wanted = [case.value, str(case.value)] if type(case.value) is int else [case.value]
    if isinstance(case.value, str) and "${" in case.value:
        return None  # tests/unit/values/test_interpolation.py
    if isinstance(case.value, (int, float, str)) and not isinstance(case.value, bool):
        held = [*_scalars(spec)]
        if not any(w == h and isinstance(h, bool) is False for w in wanted for h in held):
            return f"{case}: accepted, and the record holds no such value"
    return None


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from (key, *_scalars(inner))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _scalars(inner)
    else:
        yield value


@pytest.mark.whole
def test_a_value_of_any_kind_at_any_place(tried: Any, whole: bool, tmp_path: Path) -> None:
    cases = _sample(inputs.field_cases(), whole=whole, num=150)
    fell = [p for case in cases if (p := _problem(case, tmp_path))]
    tried(AREA, what="a value of any kind in any field", cases=len(cases), fell=len(fell))
    assert not fell, "\n".join(fell)


@pytest.mark.whole
def test_committed_files_with_a_value_changed(tried: Any, whole: bool, tmp_path: Path) -> None:
    places = inputs.committed()
    rng = random.Random(1)
    chosen = _sample(places, whole=whole, num=40)
    fell: list[str] = []
    for file, path, values in chosen:
        # A base is named relative to its file.
        near = {
            k: v if k != "base" else str((file.parent / v).resolve()) for k, v in values.items()
        }
        case = Case(path=path, value=rng.choice(inputs.VALUES), base=near)
        problem = _problem(case, tmp_path)
        fell += [f"{file.name}: {problem}"] if problem else []
    tried(AREA, what="a committed file with one value changed", cases=len(chosen), fell=len(fell))
    assert not fell, "\n".join(fell)


def _main(*arguments: object) -> int:
    with _time_bound():
        try:
            return cli.main([str(a) for a in arguments])
        except SystemExit as stop:
            return int(stop.code or 0)


@pytest.mark.parametrize("command", ["run", "sweep", "plan"])
def test_a_malformed_file(
    command: str, tried: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fell: list[str] = []
    for name, content in inputs.FILES.items():
        path = tmp_path / "x.yaml"
        path.write_bytes(content)
        code = _main(command, path)
        told = capfd.readouterr().err
        if code != 2 or ("x.yaml" not in told and "base" not in told and ":" not in told):
            fell.append(f"{command} {name}: rc {code}: {told[-300:]}")
    for path in (tmp_path, tmp_path / "none.yaml", "/dev/null", "a\0b", "x" * 300, ""):
        if (code := _main(command, path)) != 2:
            fell.append(f"{command} {path}: rc {code}: {capfd.readouterr().err[-300:]}")
    tried(AREA, what=f"malformed files, {command}", cases=len(inputs.FILES) + 6, fell=len(fell))
    assert not fell, "\n".join(fell)


OVERRIDES = (
    *(
        "prompts",
        "=3",
        "prompts=-1",
        "prompts=1e3",
        "prompts=nan",
        "prompts=[",
        "prompts=",
        "a.b=1",
    ),
    *("sampling.temperature=.inf", "sampling=3", "sampling.=3", ".sampling=3", "sampling..x=1"),
    *("strategy=os:system", "strategy=null", "strategy=[]", "strategy.name=3"),
    *("engine=os:path", "engine=null", "task={name: null}", "task.seed=-1", "trainer.max_steps=0"),
    *("seed=-1", "seed=99999999999999999999", "study=a/b", "study=", "study=${oc.env:HOME}"),
    *("evaluation.prompts=0", "evaluation.samples=-1", "budget.seconds=nan", "budget.seconds=0"),
    *("minimum_effect=-1", "folder=", "strategy.loss.clip_low=nan", "x" * 5000 + "=1"),
    *("prompts=${prompts}", "prompts=!!python/name:os.system", "\udce9=1", "a\0b=1"),
    *(".".join("a" * 40) + "=1", "strategy.filters=null", "strategy.group_size=1"),
)


def test_an_override_that_is_not_allowed(
    tried: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = _file({**inputs.SMALL, "folder": str(tmp_path / "runs")}, tmp_path)
    fell = [
        f"{override[:80]!r}: rc {code}: {capfd.readouterr().err[-300:]}"
        for override in OVERRIDES
        if (code := _main("run", path, override)) != 2
    ]
    tried(AREA, what="overrides on the command line", cases=len(OVERRIDES), fell=len(fell))
    assert not fell, "\n".join(fell)
    assert not (tmp_path / "runs").exists(), "nothing was begun"


ARGUMENTS: tuple[tuple[str, ...], ...] = (
    *(("leaderboard", "t", "--margin", value) for value in ("nan", "-1", "inf", "x")),
    *(("leaderboard", "t", "--target", value) for value in ("nan", "-inf", "x")),
    *(("plan", "FILE", "--effect", value) for value in ("nan", "-1", "0", "inf", "x")),
    *(("run", "FILE", "--until", value) for value in ("updates", "updates=-1", "x=1", "updates=x")),
    ("run", "FILE", "--until", "updates=" + "9" * 30),
    *(("audit", "--samples", value) for value in ("0", "-1", "x", "9" * 30)),
    ("list", "nothing_of_that_name"),
    ("show", "nowhere"),
    ("nothing",),
    (),
)


def test_an_argument_that_is_not_allowed(
    tried: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arms = {"a": {"strategy": "grpo"}, "b": {"strategy": "dapo"}}
    path = _file({**inputs.SMALL, "arms": arms, "seeds": [0, 1]}, tmp_path, "study.yaml")
    plain = _file(inputs.SMALL, tmp_path)
    fell: list[str] = []
    for given in ARGUMENTS:
        file = plain if given[:1] == ("run",) else path
        code = _main(*(str(file) if a == "FILE" else a for a in given))
        told = capfd.readouterr().err
        named = len(given) < 4 or given[2].strip("-") in told
        if code != 2 or "Traceback" in told or not named:
            fell.append(f"{' '.join(given)[:80]}: rc {code}: {told[-300:]}")
    tried(AREA, what="arguments of commands", cases=len(ARGUMENTS), fell=len(fell))
    assert not fell, "\n".join(fell)


WHERES = (
    *("9**9**9", "(" * 300, "[" * 900, "arm ==", "__import__('os')", "1" * 5000, "a\0b", ""),
    *("lambda: 1", "arm and", "'a' * 10**9", "seed << 10**9"),
    "not " * 2000 + "arm",
)


def test_an_expression_that_is_not_allowed(tried: Any) -> None:
    fell: list[str] = []
    for text in WHERES:
        try:
            with _time_bound():
                Where(text)
        except GfcrError:
            continue
        except BaseException as error:
            fell.append(f"{text[:80]!r}: {type(error).__name__}: {str(error)[:200]}")
        else:
            fell.append(f"{text[:80]!r}: accepted")
    tried(AREA, what="expressions of --where", cases=len(WHERES), fell=len(fell))
    assert not fell, "\n".join(fell)


def _runs(case: Case) -> bool:
    """Legal and small: an oracle beside the ranges is that it runs."""
    parts = (case.values.get("engine"), case.values.get("trainer"), case.values.get("tracking"))
    quick = parts == tuple(inputs.SMALL[k] for k in ("engine", "trainer", "tracking"))
    small = not isinstance(case.value, (int, float)) or abs(case.value) <= 3
    return quick and small and not case.values.keys() & STUDY and case.path[0] != "folder"


def test_what_is_accepted_runs(
    tried: Any,
    whole: bool,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    cases = [c for c in inputs.field_cases() if _runs(c)]
    random.Random(2).shuffle(cases)
    fell: list[str] = []
    ran = 0
    for case in cases:
        path = _file({"folder": str(tmp_path / "runs"), **case.values}, tmp_path)
        try:
            _accepted(path, study=False)
        except GfcrError:
            continue
        code = _main("run", path, "--json", "--fresh")
        out = capfd.readouterr()
        ran += 1
        if code == 0 and json.loads(out.out)["tokens"]["remainder"] != 0:
            fell.append(f"{case}: tokens are lost")
        elif code not in (0, 2) or "Traceback" in out.err:
            fell.append(f"{case}: rc {code}: {out.err[-300:]}")
        if ran == (400 if whole else 3):
            break
    tried(AREA, what="accepted values that run", cases=ran, fell=len(fell))
    assert not fell, "\n".join(fell)
