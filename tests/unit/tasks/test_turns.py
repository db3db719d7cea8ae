"""What a conversation may hold, and that a policy is asked what its chat template renders."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import TaskError
from gfcr.tasks import turns
from gfcr.tasks.codec import HfCodec
from gfcr.train import sft
from tests.cases import over

USER: dict[str, Any] = {"role": "user", "content": "ask"}
CALL = {"type": "function", "function": {"name": "look", "arguments": {"at": "0", "of": None}}}
CALLS: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOOLS = [{"type": "function", "function": {"name": "look", "description": "d", "parameters": {}}}]
# As Qwen's: null contents are left out, calls and tools are written as JSON.
TEMPLATE = (
    "{% if tools %}<t>{{ tools | tojson }}</t>{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{% if m.content %}{{ m.content }}{% endif %}"
    "{% for c in m.tool_calls or [] %}{{ c | tojson }}{% endfor %}</{{ m.role }}>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if think is false %}<no>{% endif %}{% endif %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = sft.char_tokenizer("".join(map(chr, range(32, 127))) + "\n")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder


@over(
    ("given", "said"),
    [
        (["ask"], "give a text, or a conversation"),
        ([], "give a text, or a conversation"),
        ([{"content": "a"}, USER], "turn 0 has no role"),
        ([{"role": "user"}], r"turn 0 \(user\) has no content"),
        ([{"role": "user", "content": None, "tool_calls": None}], "has no content"),
        ([{**USER, "wieght": 1}], "has 'wieght', which no chat template reads"),
        ([{"role": "user", "content": [{"type": "image", "url": "x"}]}], "prompts are of text"),
        ([{"role": "user", "content": {"text": "a"}}], "prompts are of text"),
        ([USER, CALLS], "ends with a turn of 'assistant'"),
        ([{"role": "system", "content": "a"}], "ends with a turn of 'system'"),
    ],
)
def test_what_no_template_can_show_is_named(given: list[Any], said: str) -> None:
    with pytest.raises(TaskError, match=f"row 3.*{said}"):
        turns.conversation(given, where="row 3")


def test_parts_of_text_are_joined_and_what_tables_fill_in_is_left_out() -> None:
    parts = [{"type": "text", "text": "a", "url": None}, {"type": "text", "text": "b"}]
    given = [CALLS, {"role": "tool", "content": parts, "tool_calls": None}]
    calls, tool = turns.conversation(given, where="")
    assert tool == {"role": "tool", "content": "ab"}
    assert calls["content"] is None
    assert calls["tool_calls"][0]["function"]["arguments"] == {"at": "0"}


def test_tools_and_calls_reach_the_policy_or_are_refused(model: Path, tmp_path: Path) -> None:
    codec = HfCodec(model)
    asked = turns.conversation([USER, CALLS, {"role": "tool", "content": "x"}], where="")
    shown = codec.decode(codec.conversation(asked, tools=TOOLS))
    assert "None" not in shown and '"name": "look"' in shown and shown.startswith("<t>")
    (tmp_path / "plain.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    plain = HfCodec(model, chat_template=str(tmp_path / "plain.jinja"))
    for told, offered in ((asked, ()), ((USER,), TOOLS)):
        with pytest.raises(TaskError, match="leaves the tool 'look' out"):
            plain.conversation(told, tools=offered)


def test_templates_get_what_they_are_given_and_begun_answers_are_continued(model: Path) -> None:
    assert HfCodec(model).prompt("a") == HfCodec(model).encode("<user>a</user>\n<assistant>")
    codec = HfCodec(model, chat_template_kwargs={"think": False})
    assert codec.decode(codec.prompt("a")).endswith("<assistant><no>")
    begun = codec.conversation([USER, {"role": "assistant", "content": "so far"}])
    assert codec.decode(begun).endswith("<assistant>so far")
    raw = HfCodec(model, chat_template="none")
    assert raw.prompt("<user>a</user>") == raw.encode("<user>a</user>")
    with pytest.raises(TaskError, match="has no chat template"):
        raw.conversation([USER])


def test_special_tokens_are_left_out_of_a_completion_or_scored(model: Path) -> None:
    plain, raw = HfCodec(model), HfCodec(model, raw_text=True)
    tokens = [*plain.encode("a"), plain._tokenizer.bos_token_id, *plain.encode("b"), plain.eos_id]
    assert plain.decode(tokens) == "ab" and raw.decode(tokens) == "a<bos>b"
    assert plain.unsaid(tokens) == ["<bos>"] and not raw.unsaid(tokens)
    assert not plain.unsaid(tokens[-1:]) and raw.pieces(tokens)[1] == "<bos>"


TEXTS = st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), max_size=12)
CONTENTS = (
    TEXTS | st.none() | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}))
)
SPOKEN = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": CONTENTS},
    optional={
        "tool_calls": st.none() | st.just([CALL]),
        "name": st.none() | TEXTS,
        "likes": st.none() | st.integers(),
    },
)


@given(asked=st.lists(SPOKEN, max_size=5))
def test_the_policy_is_asked_what_the_template_renders_of_the_row_or_the_row_is_refused(
    model: Path, asked: list[dict[str, Any]]
) -> None:
    codec = HfCodec(model)
    try:
        told = codec.conversation(turns.conversation(asked, where="row"))
    except TaskError as error:
        assert "row" in str(error)
        return
    joined = [
        {**turn, "content": "".join(p["text"] for p in turn["content"])}
        if isinstance(turn["content"], list)
        else turn
        for turn in asked
    ]
    plain = [{k: v for k, v in turn.items() if k != "tool_calls" or v} for turn in joined]
    begun = plain[-1]["role"] == "assistant"
    rendered = codec._tokenizer.apply_chat_template(
        plain, add_generation_prompt=not begun, continue_final_message=begun, tokenize=False
    )
    # Where tables fill in None, a call's arguments have none.
    assert codec.decode(told) == rendered.replace(', "of": null', "")
