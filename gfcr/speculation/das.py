"""DAS: drafts from earlier rollouts of the same problem, and drafts most for long requests."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, final

import numpy as np
from annotated_types import Interval

from gfcr.speculation import tree
from gfcr.speculation.base import NOTHING, Draft, Law, Proposer, Row, Step, Target
from gfcr.speculation.history import History
from gfcr.speculation.history_file import HistoryFile
from gfcr.speculation.limits import CLASSES, Ask, Limits, Mode
from gfcr.speculation.responses import Tokens, common
from gfcr.speculation.tree import NO_GUESS, Guess, SuffixTree
from gfcr.stages import Harvest, Observer, View
from gfcr.types import Rollout
from gfcr.values.ranges import DraftLength, File, SomeShare

GLOBAL = ""
"""Key of the tree that all problems share."""


@dataclass(slots=True, kw_only=True)
class _Live:
    """What DAS keeps of a running request."""

    key: str
    keys: tuple[str, ...]
    """Keys of the trees that are searched for the request."""
    warm: bool
    """Whether its problem was remembered before this update."""
    own: SuffixTree | None = None
    fed: int = 0
    """Number of the request's tokens that `own` holds."""
    length: int
    """Length of the sequence at the last proposal, in tokens."""
    allowed: int = 0
    drafted: Sequence[int] = ()
    """The last draft."""


@final
@dataclass(kw_only=True)
class Das(Proposer, Observer):
    """Continues as rollouts of the same problem did before, in a suffix tree for each problem.

    The end of a request is looked up among the problem's rollouts of its last visits, siblings of
    its group included as soon as they finish, and the most frequent continuation is proposed.
    Trees grow while the engine decodes and forget only between updates. The length-aware `budget`
    saves verification where it cannot shorten the batch. Arms of the paper are configurations:
    `scope=global`, `scope=problem budget=none`, `scope=problem`.

    Memory is part of the run's checkpoints; `history` also keeps it in a file, from run to run.

    Needs prompts that come back, or groups with siblings of different lengths. Hurts where passes
    are compute-bound: large batches, little in common between rollouts.
    """

    paper: ClassVar[str] = "2511.13841"

    draft_length: DraftLength = 8
    """Most tokens drafted for one verification (k)."""
    scope: Literal["problem", "global", "both"] = "problem"
    """Which trees are searched: one per problem, one for all, or both for the better guess."""
    budget: Mode = "classes"
    """How draft lengths depend on expected lengths.
    none: they do not.
    classes: by the mean length of the problem's rollouts, nothing below the median of the last
    2,048 rollouts (Short), a quarter of `draft_length` from there (Medium), all of it from their
    80 % quantile (Long). Means lie closer together than rollouts: most problems are Medium where
    lengths do not depend on them. A request moves up as it outgrows its class, and all move up when
    nobody running is Long: the longest set the makespan. Nothing in the first update, which knows
    no lengths.
    optimal: the least estimated time, from step times and acceptance measured in the run. Follows
    the clock: two equal runs draft differently, and differ in their draws on engines whose random
    numbers depend on drafts."""
    window: Annotated[int, Interval(ge=1, le=10000)] = 8
    """Most visits of a problem (updates, for the global tree) remembered, at least half as many."""
    match: Annotated[int, Interval(ge=1, le=10000)] = 8
    """Longest end of a request that is looked up, in tokens."""
    factor: Annotated[float, Interval(gt=0, le=1000)] = 2.0
    """A draft is at most this many times as long as what matched."""
    min_prob: SomeShare = 0.1
    """Least estimated probability of a draft up to its last token."""
    own: bool = True
    """Whether the request's own tokens are searched, its prompt included."""
    capacity: Annotated[int, Interval(ge=1, le=10**10)] = 2_000_000
    """Tokens remembered in all, at about 280 bytes each (once more with `scope=both`); problems
    unvisited for longest go first."""
    history: File = ""
    """File that keeps the memory beyond the run, for one task and model, written after each
    update by one run at a time; empty keeps none. A corrupt one is set aside."""

    def __post_init__(self) -> None:
        self._memory = History(
            window=self.window,
            capacity=self.capacity,
            match=self.match,
            draft=self.draft_length,
        )
        self._limits = Limits(self.budget, most=self.draft_length)
        self._live: dict[str, _Live] = {}
        self._finished: dict[str, int] = {}
        """Requests that are remembered, with the updates since they were last seen; their rollouts
        are not added again."""
        self._counts: Counter[str] = Counter()
        self._last: dict[str, float] = {}
        self._file: HistoryFile | None = None

    @property
    def max_draft(self) -> int:
        return self.draft_length

    def check(self, target: Target) -> None:
        """See `Drafter.check`; reads the history file."""
        super().check(target)
        tree.check_installed(drafter="das")
        if self.history:
            self._file = HistoryFile(Path(self.history).expanduser(), target=target)
            held = self._file.read()
            if held is not None:
                self._memory.load(held[0])
                self._limits.load_state_dict(held[1])

    def propose(self, rows: Sequence[Row]) -> Sequence[Draft]:
        live = [self._begin(row) for row in rows]
        asks = [Ask(row=r, key=v.key, warm=v.warm) for r, v in zip(rows, live, strict=True)]
        most = self._limits.lengths(asks)
        return [self._draft(*each) for each in zip(asks, live, most, strict=True)]

    def finished(self, row: Row, *, law: Law | None) -> None:
        """See `Proposer.finished`; siblings may use it at once."""
        live = self._live.pop(row.request_id, None)
        if live is None:  # Never asked about, as in evaluations; `observe` adds those that count.
            return
        self._measure(live, row.tokens_T)
        self._add(live.keys, tokens_T=row.tokens_T, prompt_length=row.prompt_length)
        # `observe` must not add it again, or its continuations count twice.
        self._finished[row.request_id] = 0

    def saw(self, step: Step) -> None:
        self._limits.saw(step)

    def observe(self, harvest: Harvest, *, view: View) -> None:
        """See `Observer.observe`; forgets, refits and writes the history file."""
        lengths: dict[str, list[int]] = {}
        made = [r for group in harvest.groups for r in group.rollouts if r.origin == "fresh"]
        for rollout in made:
            if rollout.complete:
                lengths.setdefault(rollout.prompt.id, []).append(len(rollout))
        # Those of groups that were cut short may come again, with groups that go on.
        for rollout in (*made, *(r for r in harvest.aborted if r.origin == "fresh")):
            names = [span.request_id for span in rollout.spans]
            if not any(name in self._finished for name in names):
                self._add_rollout(rollout)
            self._finished |= dict.fromkeys(names, 0)
        aged = {name: age + 1 for name, age in self._finished.items()}
        self._finished = {name: age for name, age in aged.items() if age <= self.window}
        self._memory.close()
        self._limits.learn(lengths)
        self._last = self._summary()
        self._counts.clear()
        # The file must hold what was kept after forgetting, with which the next run begins.
        if self._file is not None:
            self._file.write(self._memory.arrays(), learned=self._limits.state_dict())

    def metrics(self) -> Mapping[str, float]:
        """Rates and drafted tokens by class of the last update, and the size of the memory."""
        return dict(self._last)

    def state_dict(self) -> dict[str, Any]:
        """See `Part.state_dict`; the trees are rebuilt from it."""
        return {
            "history": self._memory.arrays(),
            "limits": self._limits.state_dict(),
            "last": dict(self._last),
            "finished": dict(self._finished),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._memory.load(state["history"])
        self._limits.load_state_dict(state["limits"])
        self._last = dict(state["last"])
        self._finished = dict(state["finished"])
        self._live.clear()
        self._counts.clear()

    # ------------------------------------------------------------ proposing

    def _begin(self, row: Row) -> _Live:
        live = self._live.get(row.request_id)
        if live is not None:
            self._measure(live, row.tokens_T)
            return live
        key = row.prompt_id
        warm = key in self._limits.classes.means
        live = _Live(key=key, keys=self._keys(key), warm=warm, length=len(row.tokens_T))
        if self.own:
            live.own = SuffixTree(match=self.match, draft=self.draft_length)
        self._live[row.request_id] = live
        return live

    def _draft(self, ask: Ask, live: _Live, most: int) -> Draft:
        # Where nothing is drafted now, the next tokens must not count for the draft before.
        live.length, live.allowed, live.drafted = len(ask.row.tokens_T), most, ()
        if most <= 0:
            return NOTHING
        guess = self._guess(ask.row, live, most)
        self._counts["asked"] += 1
        if not guess.tokens:
            return NOTHING
        live.drafted = guess.tokens
        self._counts["drafts"] += 1
        self._counts["matched"] += guess.match
        self._counts[self._limits.class_of(ask)] += len(guess.tokens)
        return Draft(tokens=guess.tokens)

    def _guess(self, row: Row, live: _Live, most: int) -> Guess:
        best = NO_GUESS
        for key in live.keys:
            held = self._memory.tree(key)
            best = best if held is None else self._better(best, held, row=row, most=most)
        # What the request itself repeats helps where rollouts of the problem say little.
        if live.own is not None and best.score < 1:
            live.own.extend(row.tokens_T[live.fed :])
            live.fed = len(row.tokens_T)
            best = self._better(best, live.own, row=row, most=most)
        return best

    def _better(self, best: Guess, held: SuffixTree, *, row: Row, most: int) -> Guess:
        guess = held.guess(row.tokens_T, most=most, factor=self.factor, min_prob=self.min_prob)
        return guess if guess.score > best.score else best

    def _measure(self, live: _Live, tokens_T: Tokens) -> None:
        """Counts which of the last draft's tokens were accepted, by the tokens gained since."""
        came_T = tokens_T[live.length :]
        if len(came_T) and live.allowed > 0:
            # Behind the first that was rejected others may have come, while drafts paused.
            accepted = common(came_T, np.array(live.drafted))
            self._limits.acceptance[live.warm].see(
                allowed=live.allowed, drafted=len(live.drafted), accepted=accepted
            )
            self._counts["accepted"] += accepted

    # ------------------------------------------------------------ remembering

    def _keys(self, key: str) -> tuple[str, ...]:
        if not key:  # A request of no problem, such as an engine's warm-up.
            return ()
        return {"problem": (key,), "global": (GLOBAL,), "both": (key, GLOBAL)}[self.scope]

    def _add(self, keys: Sequence[str], *, tokens_T: Any, prompt_length: int) -> None:
        # The prompt's end comes along, so that the first tokens can be found.
        for key in keys:
            self._memory.add(key, tokens_T=tokens_T[max(0, prompt_length - self.match) :])

    def _add_rollout(self, rollout: Rollout) -> None:
        prompt = rollout.prompt.tokens
        if len(rollout):
            self._add(
                self._keys(rollout.prompt.id),
                tokens_T=[*prompt, *rollout.tokens_T.tolist()],
                prompt_length=len(prompt),
            )

    def _summary(self) -> dict[str, float]:
        counts = self._counts
        drafted = sum(counts[c] for c in CLASSES)
        return {
            "asked": float(counts["asked"]),
            "hit_rate": counts["drafts"] / max(1, counts["asked"]),
            "match_length": counts["matched"] / max(1, counts["drafts"]),
            "accepted_share": counts["accepted"] / max(1, drafted),
            **{f"drafted_{c}": float(counts[c]) for c in CLASSES},
            "problems": float(len(self._memory)),
            "sequences": float(self._memory.sequences),
            "tokens": float(self._memory.tokens),
            "set_aside": float(self._file.set_aside if self._file else 0),
        }
