"""What a prompt of a TRL script's dataset has: text, answer and columns, as in an experiment."""

import json
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from gfcr.drop_in.encode import prompt_of
from gfcr.drop_in.rewards import rows_of
from gfcr.handles import TURNS
from gfcr.loop.known import digest
from gfcr.tasks.turns import asked, conversation
from gfcr.testing import factories as make
from gfcr.train import state_file
from tests.cases import over


class Tokenizer:
    """Reads a text, or the turns of a conversation one after the other."""

    def __call__(self, text: str) -> dict[str, list[int]]:
        return {"input_ids": list(make.TEXT.encode(text))}

    def apply_chat_template(self, conversation: Any, **_: Any) -> dict[str, list[int]]:
        return self(json.dumps(conversation))


TRAINER: Any = SimpleNamespace(
    processing_class=Tokenizer(), chat_template=None, chat_template_kwargs={}
)
SYSTEM = {"role": "system", "content": "Count."}
USER = {"role": "user", "content": "1+2="}
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": None}}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}


class Opaque:
    """What only its address tells from others of its kind."""


@over(
    ("held", "answer"),
    [("3", "3"), (0, "0"), (None, ""), (["3", "4"], "['3', '4']"), (np.float32(0.5), "0.5")],
)
def test_the_answer_is_that_of_the_row_as_text(held: Any, answer: str) -> None:
    assert prompt_of({"prompt": "1+2=", "answer": held}, trainer=TRAINER).answer == answer


def test_columns_go_with_a_prompt_and_change_neither_its_id_nor_its_tokens() -> None:
    row = {"prompt": "1+2=", "solution": "1+2 is 3", "limit": 5, "notes": {"of": ["x", None]}}
    rows = [[row], [{"prompt": row["prompt"]}]]
    held, plain = (rows_of(each, trainer=TRAINER)[0] for each in rows)
    assert held.meta == {key: value for key, value in row.items() if key != "prompt"}
    assert (held.id, held.tokens, held.text) == (plain.id, plain.tokens, plain.text)
    assert (plain.id, plain.answer, plain.meta) == ("0", "", {})


@over(
    "odd",
    [
        np.arange(3),
        np.int64(7),
        {"deep": [{"when": date(2026, 1, 2), "raw": b"\0", "n": {3: float("nan")}}]},
        {"$list": 1},
        Path("a") / "b",
    ],
)
def test_odd_values_of_columns_can_be_written_and_are_the_same_each_time(
    odd: Any, tmp_path: Path
) -> None:
    rows: list[Any] = [{"prompt": "1+2=", "odd": odd, "opaque": Opaque()} for _ in range(2)]
    first, again = (prompt_of(row, id="0", trainer=TRAINER) for row in rows)
    assert digest([first]) == digest([again])
    state_file.write(tmp_path, state={"prompt": first})
    back = state_file.read(tmp_path)["prompt"]
    assert digest([back]) == digest([first])
    assert json.dumps(json.loads(json.dumps(first.meta))) == json.dumps(first.meta)


@over(
    ("turns", "text"),
    [
        ([USER], "1+2="),
        ([SYSTEM, USER], "1+2="),
        ([SYSTEM, USER, {"role": "assistant", "content": "It is "}], "1+2="),
        ([{"role": "user", "content": [{"type": "text", "text": t} for t in "12"]}], "12"),
        ([{**USER, "tool_calls": None}], "1+2="),
        ([USER, CALLED, {"role": "tool", "name": "add", "content": "3"}], "3"),
    ],
)
def test_the_text_of_a_conversation_is_what_is_to_be_answered(turns: Any, text: str) -> None:
    made = prompt_of({"prompt": turns}, trainer=TRAINER)
    assert made.text == asked(conversation(turns, where="row 0")) == text
    assert made.id == json.dumps(turns, sort_keys=True)
    told: Any = made.meta[TURNS]
    assert [(t["role"], t["content"] or None) for t in told] == [
        (t["role"], t.get("content")) for t in conversation(turns, where="row 0")
    ]


def test_what_no_experiment_takes_is_still_a_prompt() -> None:
    """Chat templates pass over fields that they do not know, and any turn may be the last."""
    made = prompt_of({"prompt": [{**USER, "weight": 1}, SYSTEM]}, trainer=TRAINER)
    assert made.text == "Count."
