"""The ledger's law: whatever is settled how often, generated == sum of the bins."""

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gfcr.ledger import (
    ABORTED,
    BUFFERED,
    IN_FLIGHT,
    MASKED,
    REPLAYED,
    STALE,
    TRAINED,
    Ledger,
    aside,
    cut_spans,
    rejected,
)
from gfcr.types import Span
from tests.cases import over

BINS = [TRAINED, REPLAYED, ABORTED, BUFFERED, STALE, rejected("dead"), rejected("long")]
RANK = {IN_FLIGHT: 0, TRAINED: 3, REPLAYED: 4, rejected("dead"): 2, rejected("long"): 2}

grows = st.tuples(st.just("grow"), st.sampled_from("abc"), st.integers(0, 6), st.just(0))
settles = st.tuples(
    st.sampled_from(BINS), st.sampled_from("abc"), st.integers(0, 20), st.integers(0, 20)
)
events = st.lists(st.one_of(grows, settles), max_size=40)


def span(request: str, start: int, stop: int) -> Span:
    return Span(request_id=request, start=start, stop=stop)


def played(events: list[tuple[str, str, int, int]], *, pickled: bool) -> tuple[Any, dict[Any, str]]:
    """The ledger after the events, and the same told token by token."""
    ledger, tokens = Ledger(), dict[tuple[str, int], str]()
    lengths: Counter[str] = Counter()
    for kind, request, a, b in events:
        if kind == "grow":
            ledger.generated(request, num=a)
            tokens |= {(request, lengths[request] + i): IN_FLIGHT for i in range(a)}
            lengths[request] += a
        elif lengths[request]:
            start, stop = sorted(x % (lengths[request] + 1) for x in (a, b))
            ledger.settle([span(request, start, stop)], bin=kind)
            for i in range(start, stop):
                if RANK.get(tokens[request, i], 1) <= RANK.get(kind, 1):
                    tokens[request, i] = kind
        if pickled:
            state, ledger = pickle.loads(pickle.dumps(ledger.state_dict())), Ledger()
            ledger.load_state_dict(state)
        assert sum(lengths.values()) == sum(ledger.bins().values())
    return ledger, tokens


@given(events=events, pickled=st.booleans())
def test_every_token_is_in_exactly_one_bin_after_any_events(
    events: list[tuple[str, str, int, int]], pickled: bool
) -> None:
    ledger, tokens = played(events, pickled=pickled)
    assert ledger.bins() == dict(Counter(tokens.values()))


@over(
    ("first", "second", "stays"),
    [
        (TRAINED, REPLAYED, REPLAYED),
        (REPLAYED, TRAINED, REPLAYED),
        (rejected("dead"), TRAINED, TRAINED),
        (TRAINED, rejected("dead"), TRAINED),
        (TRAINED, ABORTED, TRAINED),
        (rejected("dead"), ABORTED, rejected("dead")),
        (BUFFERED, ABORTED, ABORTED),
        (ABORTED, BUFFERED, BUFFERED),
        (BUFFERED, REPLAYED, REPLAYED),
        (rejected("dead"), BUFFERED, BUFFERED),
        (BUFFERED, rejected("dead"), rejected("dead")),
        (TRAINED, BUFFERED, TRAINED),
        (rejected(STALE), TRAINED, TRAINED),
        (MASKED, rejected("dead"), MASKED),
        (MASKED, BUFFERED, MASKED),
        (MASKED, REPLAYED, REPLAYED),
    ],
)
def test_use_beats_rejection_beats_loss(first: str, second: str, stays: str) -> None:
    ledger = Ledger()
    ledger.generated("a", num=3)
    ledger.settle([span("a", 0, 3)], bin=first)
    ledger.settle([span("a", 0, 3)], bin=second)
    assert ledger.bins() == {stays: 3}


def test_a_shared_trunk_counts_once_and_where_its_best_leaf_is() -> None:
    ledger = Ledger()
    for request, num in (("trunk", 5), ("b", 2)):
        ledger.generated(request, num=num)
    ledger.settle([span("trunk", 0, 5)], bin=rejected("dead"))
    ledger.settle([span("trunk", 0, 3), span("b", 0, 2)], bin=TRAINED)
    assert ledger.bins() == {rejected("dead"): 2, TRAINED: 5}


def test_what_a_correction_masks_leaves_the_training_and_no_other_bin() -> None:
    ledger = Ledger()
    ledger.generated("a", num=4)
    ledger.settle([span("a", 0, 3)], bin=TRAINED)
    ledger.settle([span("a", 3, 4)], bin=STALE)
    ledger.mask("a", tokens=np.array([False, True, True, True]))
    assert ledger.bins() == {TRAINED: 1, STALE: 1, MASKED: 2}


def test_what_is_rejected_as_stale_has_the_bin_of_what_is_retired() -> None:
    assert rejected(STALE) == STALE and rejected("dead") == "rejected:dead"


def held(ledger: Ledger) -> dict[str, bytes]:
    return ledger.state_dict()["codes"]


def test_folding_forgets_places_and_no_counts_of_what_is_settled_and_not_to_be_kept() -> None:
    ledger = Ledger()
    for request in ("done", "kept", "open"):
        ledger.generated(request, num=3)
        ledger.settle([span(request, 0, 3 - (request == "open"))], bin=TRAINED)
    before = ledger.bins()
    ledger.fold(keep=["kept"])
    assert held(ledger).keys() == {"kept", "open"}
    ledger.settle([span("open", 2, 3)], bin=TRAINED)
    ledger.fold(keep=())
    assert not held(ledger) and before == {IN_FLIGHT: 1, TRAINED: 8}
    assert ledger.bins() == {TRAINED: 9}


def test_tokens_of_a_folded_request_are_taken_to_be_trained() -> None:
    ledger = Ledger()
    ledger.generated("a", num=4)
    ledger.settle([span("a", 0, 4)], bin=TRAINED)
    ledger.fold(keep=())
    ledger.mask("a", tokens=np.array([True, False, True]))
    assert ledger.bins() == {TRAINED: 2, MASKED: 2} and not held(ledger)


def test_a_mask_is_of_a_request_s_first_tokens_and_stays() -> None:
    ledger = Ledger()
    ledger.generated("a", num=4)
    ledger.settle([span("a", 0, 4)], bin=TRAINED)
    ledger.mask("a", tokens=np.array([False, True]))
    ledger.mask("a", tokens=np.array([True, True]))
    assert ledger.bins() == {TRAINED: 2, MASKED: 2}
    ledger.settle([span("a", 2, 4)], bin=REPLAYED)
    assert ledger.bins() == {MASKED: 2, REPLAYED: 2}


def test_bins_are_told_in_the_order_of_their_first_use_and_empty_ones_are_not() -> None:
    ledger = Ledger()
    ledger.generated("a", num=3)
    assert list(ledger.bins()) == [IN_FLIGHT]
    ledger.settle([span("a", 0, 2)], bin=STALE)
    ledger.settle([span("a", 2, 3)], bin=ABORTED)
    ledger.settle([span("a", 0, 1)], bin=TRAINED)
    assert list(ledger.bins().items()) == [(STALE, 1), (ABORTED, 1), (TRAINED, 1)]
    assert {type(num) for num in ledger.bins().values()} == {int}


def test_there_is_room_for_255_bins() -> None:
    ledger = Ledger()
    ledger.generated("a", num=1)
    for number in range(255):
        ledger.settle([span("a", 0, 1)], bin=rejected(f"{number}"))
    assert ledger.bins() == {"rejected:254": 1}
    state, ledger = ledger.state_dict(), Ledger()
    ledger.load_state_dict(state)
    with pytest.raises(AssertionError, match="at most 255 bins"):
        ledger.settle([span("a", 0, 1)], bin=rejected("more"))
    ledger.settle([span("a", 0, 1)], bin=rejected("254"))
    assert ledger.bins() == {"rejected:254": 1} and ledger.state_dict() == state


def test_the_bin_of_what_a_part_asked_on_the_side_names_its_role() -> None:
    assert aside("judge") == "aside:judge"


def test_spans_are_cut_where_the_tokens_are() -> None:
    spans = [Span(request_id="a", start=2, stop=4), Span(request_id="b", start=0, stop=3)]
    assert cut_spans(spans, num=3) == [spans[0], Span(request_id="b", start=0, stop=1)]
    assert cut_spans(spans, num=2) == spans[:1] and cut_spans(spans, num=0) == []
    assert cut_spans(spans, num=9) == spans
