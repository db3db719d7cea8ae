import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.errors import TaskError
from gfcr.tasks.codec import CharCodec

CODEC = CharCodec(alphabet="0123456789+-=,?#")


@given(st.text(alphabet=CODEC.alphabet))
def test_text_survives_the_round_trip_and_special_tokens_vanish(text: str) -> None:
    tokens = CODEC.encode(text)
    assert len(tokens) == len(text)
    assert all(4 <= t < CODEC.vocab_size for t in tokens)
    assert CODEC.decode((*tokens, CODEC.eos_id)) == text


def test_unknown_characters_are_named() -> None:
    with pytest.raises(TaskError, match=r"'a' 'b' in the text '1ab\+1='"):
        CODEC.prompt("1ab+1=")
