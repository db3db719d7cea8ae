"""Tiny programs: what the executor says is right, what it refuses, what is held out."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import ConfigError, TaskError
from gfcr.handles import kind_of, role_of
from gfcr.sandbox.expressions import run
from gfcr.sandbox.spec import Limits
from gfcr.tasks.codec import CharCodec
from gfcr.tasks.demos.programs import ProgramDemonstrations
from gfcr.tasks.formulas import draw, is_heldout
from gfcr.tasks.programs import ALPHABET, KINDS, Problem, Programs
from gfcr.types import Prompt
from tests.cases import over

CODEC = CharCodec(alphabet=ALPHABET)
TASK = Programs(seconds=8.0)
EVERY = range(10)


def problem(kind: str, program: str, *inputs: int) -> Prompt:
    table = [eval(program, {"x": x}) for x in EVERY]
    return Problem(kind=kind, program=program, table=table, inputs=inputs).prompt(CODEC)


def asked(kind: str) -> Prompt:
    shown = [problem(kind, "(x+3)*2", *((0, 3, 4, 1, 2, 5) if kind == "induction" else (4,)))]
    return TASK.ask(CODEC, kind=kind, references=[*shown, shown[0]])


def reward(prompt: Prompt, text: str) -> float | None:
    return TASK.verify(prompt, text=text).reward


@given(st.integers(0, 10**6))
def test_a_formula_means_in_python_what_it_means_here(seed: int) -> None:
    formula = draw(random.Random(seed))
    assert [*formula.table(EVERY)] == [eval(formula.text, {"x": x}) for x in EVERY]


def test_deductions_and_abductions_are_right_by_value() -> None:
    deduction, abduction = problem("deduction", "x%3", 5), problem("abduction", "x%3", 5)
    assert (deduction.text, abduction.text) == ("d:x%3;5=", "a:x%3;2=")
    assert [reward(deduction, t) for t in ("2", " 2 ", "02", "3", "")] == [1, 1, 0, 0, 0]
    assert [reward(abduction, t) for t in ("5", "2", "8", "1", "11", "-1", "x")] == [1] * 3 + [
        0
    ] * 4


@pytest.mark.slow
def test_an_induction_is_right_if_the_program_gives_what_is_not_shown_too() -> None:
    prompt = problem("induction", "(x+3)*2", 0, 3, 4, 1, 9)
    assert prompt.text == "i:0>6,3>12,4>14=" and prompt.answer == "(x+3)*2"
    right = ("(x+3)*2", "6+x+x")
    wrong = ("x*2+6+(x==9)*1", "(x+3")
    assert [reward(prompt, text) for text in (*right, *wrong)] == [1] * 2 + [0] * 2
    assert Programs(seconds=1.0).verify(prompt, text="9**9**9**9").reward == 0


def test_what_is_proposed_becomes_a_problem_with_the_executors_answer() -> None:
    made = {kind: TASK.pose(asked(kind), text="x*x+1;3") for kind in KINDS[:2]}
    assert (made["deduction"].text, made["deduction"].answer) == ("d:x*x+1;3=", "10")
    assert (made["abduction"].text, made["abduction"].answer) == ("a:x*x+1;10=", "3")
    induction = TASK.pose(asked("induction"), text="0,3,4,1,2,5")
    assert (induction.text, induction.answer) == ("i:0>6,3>12,4>14=", "(x+3)*2")
    for kind, found in {**made, "induction": induction}.items():
        assert found.meta["kind"] == kind and found.meta["role"] == "solve" and not found.problem


REFUSED = {
    "x+1": "form",
    ";3": "form",
    "x+1;10": "form",
    "x+1;-1": "form",
    "(x+1;3": "syntax",
    "import os;3": "syntax",
    "x+1+1+1+1+1+1+1+1+1+1+1+1;3": "long",
    "1//(x-3);3": "undefined",
    "x/2;3": "undefined",
    "x==3;3": "undefined",
    "9**9;3": "undefined",
    "9**9**9;3": "timeout",
    "hash('a'*x)%99;3": "nondeterministic",  # ten values, that two runs share once in 10^18
    "print(1);3": "output",
    "open('/etc/passwd');3": "undefined",
}


@pytest.mark.slow
@over("text", REFUSED)
def test_what_is_no_program_or_not_sure_is_refused(text: str) -> None:
    found = Programs(seconds=1.0 if "**9**" in text else 8.0).pose(asked("deduction"), text=text)
    assert (found.problem, found.excused, found.text) == (REFUSED[text], False, "")


@over("text", ["4", "4,4", "0,1,2,3,4,10", "0,1,2,3,4,5,6", "1,,2", "a", ""])
def test_the_inputs_of_an_induction_are_two_to_six(text: str) -> None:
    assert TASK.pose(asked("induction"), text=text).problem == "form"
    assert TASK.pose(asked("induction"), text="9,1,9,0").meta["inputs"] == [9, 1, 0]


def test_a_held_out_program_stays_so_however_it_is_written() -> None:
    rng = random.Random(0)
    while not is_heldout((found := draw(rng)).table(EVERY)) or len(found.text) > 9:
        pass
    for program in (found.text, f"0+{found.text}", f"({found.text})*1"):
        posed = TASK.pose(asked("deduction"), text=f"{program};3")
        assert (posed.problem, posed.excused) == ("heldout", True)


def test_splits_share_no_problem_and_no_program() -> None:
    task = Programs(num_train=900, num_heldout=90)
    made = task.problems(CODEC)
    for split, of in ((made.train, False), (made.heldout, True)):
        assert {is_heldout(Problem.of(p).table) for p in split} == {of}
        assert {kind: sum(kind_of(p) == kind for p in split) for kind in KINDS} == dict.fromkeys(
            KINDS, len(split) // 3
        )
    texts = [p.text for p in (*made.train, *made.heldout)]
    assert len({*texts}) == len(texts)
    assert [*task.problems(CODEC).train] == [*made.train]


def test_demonstrations_solve_and_propose_in_the_tasks_words() -> None:
    stream = ProgramDemonstrations().stream(seed=0)
    found = [next(stream) for _ in range(400)]
    proposals = [d for d in found if d.prompt.startswith("+")]
    assert 60 < len(proposals) < 140
    for demonstration in found:
        CODEC.encode(demonstration.prompt + demonstration.completion)
        assert len(demonstration.prompt) < 120
    prompt = asked("deduction")
    assert role_of(prompt) == "propose" and prompt.text == "+d(x+3)*2;4,(x+3)*2;4="
    plain = [d for d in proposals if d.prompt.startswith("+d")][:3]
    assert not any(TASK.pose(prompt, text=d.completion).problem for d in plain)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"task\.examples=4 is not allowed.*max_input \+ 1 \(3\)"):
        Programs(max_input=2, examples=4)
    with pytest.raises(TaskError, match=r"programs\.num_heldout=200 is more than the \d+"):
        Programs(num_heldout=200, max_input=1, examples=2).problems(CODEC)
    with pytest.raises(TaskError, match="an induction is asked for about a reference"):
        TASK.ask(CODEC, kind="induction", references=[])


def test_the_runner_says_how_a_program_ended() -> None:
    limits = Limits(seconds=8.0, memory_mib=256)
    ran = {p: run(p, inputs=[1, 2], limits=limits) for p in ("x*2", "1/0", "x.__class__", "True")}
    assert ran["x*2"].values == (2, 4)
    assert all(r.values == (None, None) for p, r in ran.items() if p != "x*2")
    leaves = "__import__('os')._exit(0)"
    assert run(leaves, inputs=[1], limits=limits).problem == "output"
    forged = "print('[7]')or __import__('os')._exit(0)"
    assert run(forged, inputs=[1], limits=limits).problem == "output"
