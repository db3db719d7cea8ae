import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

from gfcr.errors import TaskError
from gfcr.tasks.codec import CharCodec, HfCodec
from gfcr.train import sft
from tests.cases import over

CODEC = CharCodec(alphabet="0123456789+-=,?#")


@given(st.text(alphabet=CODEC.alphabet))
def test_text_survives_the_round_trip_and_special_tokens_vanish(text: str) -> None:
    tokens = CODEC.encode(text)
    assert len(tokens) == len(text)
    assert all(4 <= t < CODEC.vocab_size for t in tokens)
    assert CODEC.decode((*tokens, CODEC.eos_id)) == text


HOLDS = "{% for m in messages %}{{ m['content'] | trim }}={% endfor %}"
LEAVES = "{% for m in messages if m['role'] == 'user' %}{{ m['content'] }}={% endfor %}"
REFUSES = "{{ raise_exception('no such role') }}"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    sft.char_tokenizer(CODEC.alphabet).save_pretrained(folder)
    return folder


def test_unknown_characters_are_named_and_a_token_spelt_out_is_none(tmp_path: Path) -> None:
    sft.char_tokenizer("1+=<unk>").save_pretrained(tmp_path)
    codec = HfCodec(tmp_path)
    for each in (CODEC, codec):
        with pytest.raises(TaskError, match=r"'a' 'b' in the text '1ab\+1='"):
            each.prompt("1ab+1=")
    assert codec.prompt("1<unk>1") == (4, 3, 4)


def test_a_system_prompt_goes_before_every_prompt(model: Path, tmp_path: Path) -> None:
    (tmp_path / "own.jinja").write_text(HOLDS)
    codec = HfCodec(model, system="9?\n", chat_template=str(tmp_path / "own.jinja"))
    assert codec.prompt("1+2") == codec.encode("9?=1+2=")
    plain = HfCodec(model, chat_template=str(tmp_path / "own.jinja"))
    assert plain.prompt("1+2") == plain.encode("1+2=")
    assert plain.marks("1<eos>+<bos>2<eos>") == ["<eos>", "<bos>"], "as they come in the text"
    assert plain.marks("1<2>") == HfCodec(model).marks("<bos>") == [], "with a template alone"


@over(
    ("template", "said"),
    [
        (None, "is missing"),
        (LEAVES, r"leaves '9\?' out"),
        (REFUSES, r"refuses it \(no such role\)"),
    ],
)
def test_a_system_prompt_that_the_model_would_not_see_is_refused(
    model: Path, tmp_path: Path, template: str | None, said: str
) -> None:
    file = tmp_path / "own.jinja"
    file.write_text(template or "")
    with pytest.raises(TaskError, match=rf"task.system='9\?': .* {said}"):
        HfCodec(model, system="9?", chat_template=str(file) if template else "")


@over(
    ("template", "said"),
    [("{{ messages[7].content }}", "refuses it"), ("1+2=", "leaves '-[?]-' out")],
)
def test_a_template_that_no_prompt_comes_through_is_refused(
    model: Path, tmp_path: Path, template: str, said: str
) -> None:
    file = tmp_path / "own.jinja"
    file.write_text(template)
    with pytest.raises(TaskError, match=rf"own.jinja {said}"):
        HfCodec(model, chat_template=str(file))


def test_no_prompt_ends_with_an_end_that_its_tokenizer_adds(model: Path, tmp_path: Path) -> None:
    tokenizer = sft.char_tokenizer(CODEC.alphabet)
    ended = [(tokenizer.eos_token, tokenizer.eos_token_id)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"$A {tokenizer.eos_token}", special_tokens=ended
    )
    tokenizer.save_pretrained(tmp_path)
    codec = HfCodec(tmp_path)
    assert codec._tokenizer("1+2")["input_ids"][-1] == codec.eos_id, "the situation is there"
    assert codec.prompt("1+2") == HfCodec(model).prompt("1+2") == CODEC.encode("1+2")


def test_no_prompt_begins_twice(tmp_path: Path) -> None:
    tokenizer = sft.char_tokenizer(CODEC.alphabet)
    begins = [(tokenizer.bos_token, tokenizer.bos_token_id)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{tokenizer.bos_token} $A", special_tokens=begins
    )
    tokenizer.save_pretrained(tmp_path)
    codec, once = HfCodec(tmp_path), (tokenizer.bos_token_id, *CODEC.encode("1+2"))
    assert codec._tokenizer("<bos>1+2")["input_ids"][:2] == [2, 2], "the situation is there"
    assert codec.prompt("1+2") == codec.prompt("<bos>1+2") == once
    assert codec.encode("1+2") == once[1:], "what is in a sequence begins none"
    file = tmp_path / "own.jinja"
    file.write_text("{{ bos_token }}" + HOLDS)
    chat = HfCodec(tmp_path, chat_template=str(file), system="9?")
    turns = [{"role": "system", "content": "7-"}, {"role": "user", "content": "1+2"}]
    for asked, text in ((chat.conversation(turns), "7-=1+2="), (chat.prompt("1+2"), "9?=1+2=")):
        assert asked == (tokenizer.bos_token_id, *CODEC.encode(text))


def test_a_template_that_is_not_there_is_named(model: Path) -> None:
    with pytest.raises(TaskError, match=r"task.chat_template=nowhere.jinja cannot be read"):
        HfCodec(model, chat_template="nowhere.jinja")


def test_a_beginning_of_sequence_token_that_prompts_lack_is_named(tmp_path: Path) -> None:
    def codec(family: str, **config: object) -> HfCodec:
        tokenizer = sft.char_tokenizer(CODEC.alphabet)
        tokenizer.save_pretrained(tmp_path)
        held = {"model_type": family, "bos_token_id": tokenizer.bos_token_id, **config}
        (tmp_path / "config.json").write_text(json.dumps(held))
        return HfCodec(tmp_path)

    gemma = codec("gemma3_text")
    said = gemma.unbegun(gemma.prompt("1+2="))
    assert said.startswith("prompts do not begin with <bos>") and "add_bos_token=True" in said
    assert not gemma.unbegun((2, *gemma.prompt("1+2=")))
    assert not codec("qwen3").unbegun((5,)), "which were trained without"
    assert not codec("llama", bos_token_id=None).unbegun((5,))


def test_a_chat_template_is_read_alike_whatever_the_locale(tmp_path: Path) -> None:
    file = tmp_path / "own.jinja"
    file.write_text("<\uff5cUser\uff5c>", "utf-8")
    asked = f"from gfcr.tasks import codec; print(ascii(codec._read({str(file)!r})))"
    places = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", asked], env={**os.environ, **places}, capture_output=True, text=True
    )
    assert done.stdout.strip() == ascii("<\uff5cUser\uff5c>"), done.stderr
