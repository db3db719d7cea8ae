"""What a conversation may hold, and that a policy is asked what its chat template renders."""

import json
import shutil
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gfcr.drop_in.encode import TrlCodec
from gfcr.errors import ConfigError, TaskError
from gfcr.experiment.check import check_stops
from gfcr.filter.episode_advantage import EpisodeAdvantage
from gfcr.generate.environments.base import Environment, Observation, World
from gfcr.generate.episode import Episode
from gfcr.generate.self_repair import SelfRepair
from gfcr.handles import TOOLS as TOOLS_KEY
from gfcr.handles import TURNS, Verdict
from gfcr.strategy import Strategy
from gfcr.tasks import turns
from gfcr.tasks.base import encoded
from gfcr.tasks.codec import HfCodec
from gfcr.tasks.dataset import Dataset
from gfcr.testing import factories as make
from gfcr.train import sft
from gfcr.types import Prompt, Sampling
from tests.cases import over

TRL = Path(str(getattr(find_spec("trl"), "origin", ""))).parent
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


@pytest.fixture(scope="module")
def codec(model: Path) -> HfCodec:
    return HfCodec(model)


@final
@dataclass(frozen=True, kw_only=True)
class Opens(Environment):
    """Says something behind the question, and then begins the history anew."""

    def make(self) -> World:
        return _Opened()


@final
class _Opened(World):
    def begin(self, prompt: Prompt, *, seed: int) -> Observation:
        self.acted = False
        return Observation(text=" Go.")

    def act(self, action: str) -> Observation:
        done, self.acted = self.acted, True
        return Observation(done=done, history=None if done else "Begin again.")

    def verdict(self, last: str) -> Verdict | None:
        return Verdict(reward=1.0)


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
        ([CALLS | {"tool_calls": ["look"]}, USER], r"turn 0 \(assistant\) holds the tool_calls"),
        ([CALLS | {"tool_calls": [{"function": "look"}]}, USER], "holds the tool_calls"),
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
    bare = {"name": "look", "arguments": {"at": "0"}}
    for spelt in (json.dumps([{"function": bare}]), [json.dumps({"function": bare})]):
        calls, _ = turns.conversation([CALLS | {"tool_calls": spelt}, USER], where="")
        assert calls["tool_calls"] == [{"function": bare}]


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
    # Also where a part or an environment words the question anew.
    turns_of = [[said("system", "be brief"), USER | {"content": f"{n}"}] for n in range(100, 120)]
    rows = [{"prompt": t, "answer": "1", "tools": json.dumps(TOOLS)} for t in turns_of]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    task = Dataset(path=str(tmp_path / "rows.jsonl"), verifier="numeric")
    parts = (
        (SelfRepair(when="always", template="{prompt} is {attempt}?"), " is 1?</user>"),
        (Episode(environment=Opens(), stop="", per_turn=True), " Go.</user>"),
    )
    for part, ends in parts:
        maps = {"advantage": EpisodeAdvantage()}
        batch = make.pipeline(
            Strategy(name="t", generate=part, filters=maps, group_size=2),
            **{"task": task, "codec": codec, "prompts": 2, "max_tokens": 60},
            engine={"alphabet": "".join(map(chr, range(32, 127))) + "\n"},
            script=lambda request: [*codec.encode("1"), codec.eos_id],
        ).next_batch()
        asked_ = {codec.decode(r.prompt.tokens) for g in batch.groups for r in g.rollouts}
        told_ = [text for text in asked_ if ends in text]
        assert len(told_) == 2, asked_
        assert all('"name": "look"' in text and "be brief" in text for text in told_)
        if isinstance(part, Episode):
            anew = [text for text in asked_ if "<user>Begin again.</user>" in text]
            assert anew and all("be brief" not in text and "<t>" not in text for text in anew)
    # And in a TRL script, whose codec is the trainer's.
    (system, user), trl = turns_of[0], TrlCodec(codec, trainer=None)
    found = encoded("Go.", meta={TURNS: (system, user), TOOLS_KEY: TOOLS}, codec=trl)
    assert found == codec.conversation([system, user | {"content": "Go."}], tools=TOOLS)


def test_templates_get_what_they_are_given_and_begun_answers_are_continued(model: Path) -> None:
    assert HfCodec(model).prompt("a") == HfCodec(model).encode("<user>a</user>\n<assistant>")
    codec = HfCodec(model, chat_template_kwargs={"think": False})
    assert codec.decode(codec.prompt("a")).endswith("<assistant><no>")
    begun = codec.conversation([USER, {"role": "assistant", "content": "so far"}])
    assert codec.decode(begun).endswith("<assistant>so far")
    for name in ("qwen3", "glm4moe"):
        own = HfCodec(model, chat_template=str(TRL / f"chat_templates/{name}.jinja"))
        for thought in ("<think>", "<think>\nlet me"):
            begun = own.decode(own.conversation([USER, said("assistant", thought)]))
            assert begun == f"{own.decode(own.conversation([USER])).rstrip()}\n{thought}", name
        begun = own.decode(own.conversation([USER, said("assistant", "so far")]))
        assert begun.count("</think>") == 1, "an answer is behind its thoughts, if none"
    raw = HfCodec(model, chat_template="none")
    assert raw.prompt("<user>a</user>") == raw.encode("<user>a</user>")
    with pytest.raises(TaskError, match="has no chat template"):
        raw.conversation([USER])


def test_special_tokens_are_left_out_of_a_completion_or_scored(model: Path, tmp_path: Path) -> None:
    plain, raw = HfCodec(model), HfCodec(model, raw_text=True)
    tokens = [*plain.encode("a"), plain._tokenizer.bos_token_id, *plain.encode("b"), plain.eos_id]
    assert plain.decode(tokens) == "ab" and raw.decode(tokens) == "a<bos>b"
    assert plain.unsaid(tokens) == ["<bos>"] and not raw.unsaid(tokens)
    assert not plain.unsaid(tokens[-1:]) and raw.pieces(tokens)[1] == "<bos>"
    shutil.copytree(model, tmp_path, dirs_exist_ok=True)
    ends = {"eos_token_id": [plain.eos_id, tokens[1]]}
    (tmp_path / "generation_config.json").write_text(json.dumps(ends))
    assert HfCodec(tmp_path, raw_text=True).decode(tokens[:2]) == "a", "another end of the model's"
    assert not HfCodec(tmp_path).unsaid(tokens)
    (tmp_path / "generation_config.json").write_text("{")
    with pytest.raises(TaskError, match=r"generation_config\.json' is not JSON .*: save the model"):
        HfCodec(tmp_path)
    check_stops(Sampling(stop=("b", "\N{SNOWMAN}")), key="sampling", codec=plain)
    given = Sampling(stop=("b", "a<bos>"))
    check_stops(given, key="sampling", codec=raw)
    with pytest.raises(
        ConfigError, match=r"sampling\.stop='a<bos>' .* <bos> is .*\.stop_token_ids"
    ):
        check_stops(given, key="sampling", codec=plain)


# Turns of known roles alone, the first system's, without thoughts, tools' contents as JSON.
NARROW = (
    "{% for m in messages %}"
    "{% if m.role == 'system' %}{% if loop.first %}{{ m.content }}{% endif %}"
    "{% elif m.role == 'tool' %}{{ m.content | tojson }}"
    "{% elif m.role == 'assistant' %}{{ m.content.split('</think>')[-1] | trim }}"
    "{% elif m.role == 'user' %}<{{ m.content | trim }}>{% endif %}{% endfor %}"
)


def said(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


@over(
    ("asked", "left"),
    [
        ([said("developer", "be brief"), USER], "turn 0, of the role 'developer',"),
        ([said("human", "a"), said("bot", "zzz"), USER], "turn 1, of the role 'bot',"),
        ([said("system", "b"), said("system", "be brief"), USER], "turn 1, of the role 'system',"),
        ([said("system", "b"), USER], ""),
        ([said("user", "  a \n"), said("assistant", "<think>why</think> b"), USER], ""),
        ([USER, said("tool", 'a "b"\n\u00e9')], ""),
        ([said("developer", " "), USER], ""),
    ],
)
def test_a_turn_that_does_not_reach_the_prompt_is_refused(
    asked: list[dict[str, Any]], left: str, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "narrow.jinja").write_text(NARROW)
    codec = HfCodec(model, chat_template=str(tmp_path / "narrow.jinja"))
    told = turns.conversation(asked, where="row")
    assert turns.missing(codec._rendered(told), turns=told, tools=()) == left
    if left:
        with pytest.raises(TaskError, match=f"leaves {left} out"):
            codec.conversation(told)


def test_turns_of_sharegpt_are_read_and_others_of_its_form_named() -> None:
    names = {"system": "system", "human": "user", "gpt": "assistant"}
    given = [{"from": n, "value": n, "weight": None} for n in ("system", "human", "gpt", "human")]
    found = turns.conversation(given, where="")
    assert found == tuple({"role": names[n["from"]], "content": n["from"]} for n in given)
    assert turns.conversation([USER, {"from": "observation", "value": 3}], where="")[1] == {
        "role": "tool",
        "content": "3",
    }
    with pytest.raises(TaskError, match="turn 0 is from 'narrator': give one of human, user, gpt"):
        turns.conversation([{"from": "narrator", "value": "a"}], where="row 3")


@over(
    ("text", "read"),
    [
        (json.dumps([USER]), [USER]),
        (f" {[USER, CALLS]!r}\n", [USER, CALLS]),
        ('[{"from": "human", "value": "a"}]', [{"from": "human", "value": "a"}]),
        ('[{"role": "user"}]', None),
        ('[{"role": "user", "content": "a"}, 3]', None),
        ("[{a}]", None),
        ("[{{1, 2}, {3}}]", None),
        ("[{[1]: 2}]", None),
        ("[]", None),
        ("a", None),
    ],
)
def test_a_conversation_is_known_where_it_is_written_as_text(text: str, read: Any) -> None:
    assert turns.written(text) == read


TEXTS = st.text(st.characters(codec="ascii", exclude_categories=("Cc",)), max_size=12)
WORDS = TEXTS | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXTS}))
NAMES = {"name": st.none() | TEXTS}
CALLING = st.fixed_dictionaries(
    {"role": st.just("assistant"), "content": st.none() | TEXTS, "tool_calls": st.just([CALL])}
)


def spoken(*roles: str) -> st.SearchStrategy[dict[str, Any]]:
    needed = {"role": st.sampled_from(roles), "content": WORDS}
    return st.fixed_dictionaries(needed, optional={**NAMES, "tool_calls": st.none()})


GOOD = st.tuples(
    st.lists(spoken("system", "user", "assistant", "tool") | CALLING, max_size=4),
    spoken("user", "assistant").map(lambda turn: [turn])
    | st.tuples(CALLING, spoken("tool")).map(list),
).map(lambda parts: [*parts[0], *parts[1]])
ODD = st.lists(
    st.fixed_dictionaries(
        {
            "role": st.sampled_from(["system", "user", "assistant", "tool"]),
            "content": WORDS | st.none(),
        },
        optional={
            **NAMES,
            "tool_calls": st.none() | st.just([CALL]),
            "likes": st.none() | st.integers(),
        },
    ),
    max_size=5,
)
ASKED = st.sampled_from([GOOD, GOOD, GOOD, ODD]).flatmap(lambda strategy: strategy)


def asked_as_rendered(codec: HfCodec, asked: list[dict[str, Any]]) -> None:
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


@given(asked=ASKED)
def test_the_policy_is_asked_what_the_template_renders_of_the_row_or_the_row_is_refused(
    codec: HfCodec, asked: list[dict[str, Any]]
) -> None:
    asked_as_rendered(codec, asked)


@pytest.mark.whole
@settings(max_examples=2000)
@given(asked=ASKED)
def test_so_it_is_in_many_examples(codec: HfCodec, asked: list[dict[str, Any]]) -> None:
    asked_as_rendered(codec, asked)


def test_most_of_these_rows_are_not_refused() -> None:
    """Else the law above is about refusals."""
    taken = list[bool]()

    @settings(max_examples=200, database=None, phases=[Phase.generate])
    @given(asked=ASKED)
    def tried(asked: list[dict[str, Any]]) -> None:
        try:
            taken.append(bool(turns.conversation(asked, where="row")))
        except TaskError:
            taken.append(False)

    tried()
    assert len(taken) >= 200 and sum(taken) >= 0.6 * len(taken)
