"""A drafter's memory of rollouts: sequences by problem, over a sliding window of visits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from gfcr.speculation.tree import SuffixTree
from gfcr.types import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One remembered sequence of tokens."""

    visit: int
    """Update in which the sequence was generated, as `History` counts updates."""
    tokens_T: Ints


@dataclass(kw_only=True)
class _Problem:
    tree: SuffixTree
    entries: list[Entry]
    size: int
    """Tokens in all entries."""

    @property
    def visits(self) -> list[int]:
        return sorted({e.visit for e in self.entries})


@final
class History:
    """Sequences by key, each key with a tree of its own.

    Adding is cheap and happens at any time; forgetting waits for `close`, the end of an update.
    Once a key has more than `window` visits, its tree is rebuilt from the newest half of `window`,
    rounded up: that costs what two or so removals would, and the tree depends on nothing else.

    Args:
        window: most visits of a key that are remembered; between visits at least half as many.
        capacity: most tokens in all; the keys unvisited for longest are forgotten first, then the
            older half of those visited now, then these.
        match: longest suffix looked up.
        draft: longest continuation.
    """

    def __init__(self, *, window: int, capacity: int, match: int, draft: int) -> None:
        self._window, self._capacity = window, capacity
        self._match, self._draft = match, draft
        self._problems: dict[str, _Problem] = {}
        self._touched: set[str] = set()
        self._visit = 0

    def __len__(self) -> int:
        return len(self._problems)

    @property
    def tokens(self) -> int:
        """Number of tokens remembered."""
        return sum(p.size for p in self._problems.values())

    @property
    def sequences(self) -> int:
        """Number of sequences remembered."""
        return sum(len(p.entries) for p in self._problems.values())

    def tree(self, key: str) -> SuffixTree | None:
        """Returns the tree of a key; None if nothing is remembered under it."""
        problem = self._problems.get(key)
        return problem.tree if problem else None

    def add(self, key: str, *, tokens_T: NDArray[np.integer[Any]]) -> None:
        """Remembers a sequence under a key; the next proposal may use it."""
        self._put(key, Entry(visit=self._visit, tokens_T=np.array(tokens_T, np.int32)))
        self._touched.add(key)

    def close(self) -> None:
        """Ends an update: moves visited keys to the back, and forgets what exceeds the limits."""
        # In the order of first touch whatever the set's: the dict knows it only for new keys.
        visited = [k for k in self._problems if k in self._touched]
        for key in visited:
            self._problems[key] = problem = self._problems.pop(key)
            if len(visits := problem.visits) > self._window:
                self._keep(key, since=visits[-((self._window + 1) // 2)])
        self._touched.clear()
        self._visit += 1
        self._shrink(visited)

    def arrays(self) -> dict[str, Any]:
        """Returns the content as arrays: all tokens in one; key, visit, length by sequence S.

        Keys are in the order of their last visit, sequences from old to new.
        """
        names = {key: i for i, key in enumerate(self._problems)}
        entries = [(key, e) for key, problem in self._problems.items() for e in problem.entries]
        parts = [e.tokens_T for _, e in entries]
        return {
            "names": list(names),
            "visit": self._visit,
            "key_S": np.array([names[key] for key, _ in entries], np.int32),
            "visit_S": np.array([e.visit for _, e in entries], np.int32),
            "length_S": np.array([len(p) for p in parts], np.int32),
            "tokens": np.concatenate(parts) if parts else np.zeros(0, np.int32),
        }

    def load(self, arrays: Mapping[str, Any]) -> None:
        """Replaces the content by what `arrays` returned."""
        self._problems.clear()
        self._touched.clear()
        self._visit = int(arrays["visit"])
        names: list[str] = list(arrays["names"])
        ends_S = np.cumsum(arrays["length_S"], dtype=np.int64)
        whole_T: Ints = np.asarray(arrays["tokens"], np.int32)
        for i, end in enumerate(ends_S.tolist()):
            name, visit = names[int(arrays["key_S"][i])], int(arrays["visit_S"][i])
            begin = end - int(arrays["length_S"][i])
            # A view would keep the tokens of all entries in memory for as long as one is kept.
            self._put(name, Entry(visit=visit, tokens_T=whole_T[begin:end].copy()))
            # The checkpoint lies within this update, whose keys are still to be closed.
            if visit == self._visit:
                self._touched.add(name)

    def _put(self, key: str, entry: Entry) -> None:
        problem = self._problems.get(key)
        if problem is None:
            problem = self._problems[key] = self._fresh()
        problem.tree.add(entry.tokens_T)
        problem.entries.append(entry)
        problem.size += len(entry.tokens_T)

    def _fresh(self) -> _Problem:
        tree = SuffixTree(match=self._match, draft=self._draft)
        return _Problem(tree=tree, entries=[], size=0)

    def _keep(self, key: str, *, since: int) -> None:
        """Rebuilds a key's tree from its entries of visit `since` and later."""
        kept = [e for e in self._problems[key].entries if e.visit >= since]
        self._problems[key] = self._fresh()
        for entry in kept:
            self._put(key, entry)

    def _shrink(self, visited: Sequence[str]) -> None:
        excess = self.tokens - self._capacity
        unvisited = [*self._problems][: len(self) - len(visited)]
        # Of what every update visits only the older half goes, unless that is not enough.
        steps = [(unvisited, False), (visited, True), (visited[:-1], False)]
        for key, halve in ((k, halve) for keys, halve in steps for k in keys):
            if excess <= 0:
                return
            excess -= self._problems[key].size
            if not halve:
                del self._problems[key]
                continue
            visits = self._problems[key].visits
            if len(visits) > 1:
                self._keep(key, since=visits[len(visits) // 2])
            excess += self._problems[key].size
