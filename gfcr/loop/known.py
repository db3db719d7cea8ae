"""The prompts that a run has handed out, and the rollouts that may come back, by id.

Rollouts are read-only, so an id stands for all that a rollout holds. Tokens of what Replay keeps
are accounted for here, since no group of the batch has them.
"""

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, final

from gfcr.errors import PartError
from gfcr.ledger import ABORTED, BUFFERED, Ledger
from gfcr.stages import Harvest
from gfcr.types import Group, Prompt, Rollout


@final
class Known:
    """Remembers the prompts that were handed out and the rollouts that may be used again."""

    def __init__(self, *, ledger: Ledger, heldout: Iterable[Prompt]) -> None:
        """Begins with no prompts and no rollouts.

        Args:
            ledger: the run's token ledger.
            heldout: prompts that are never trained on, whichever part brings them.
        """
        self.heldout = frozenset(p.tokens for p in heldout)
        self._ledger = ledger
        self._prompts: dict[str, str] = {}
        """Digest of each prompt that was handed out, by id."""
        self._joined: Counter[str] = Counter()
        """How often each rollout was recalled for batches in the making, by id."""
        self._lent: dict[int, tuple[Rollout, ...]] = {}
        """Cut rollouts that a batch in the making continues, by the update the batch is for."""
        self._held: dict[str, Rollout] = {}
        """Aborted rollouts that a Replay part keeps, by id; their tokens count as buffered."""
        self._requests: dict[str, set[str]] = {}
        """Engine requests behind each rollout that a Replay part keeps; their tokens may change
        bin."""

    def hand_out(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Remembers prompts that are given to a part, and returns them.

        Raises:
            PartError: one has the id of another, or was changed since it was handed out before.
        """
        for prompt in prompts:
            new = digest((prompt,))
            if self._prompts.setdefault(prompt.id, new) != new:
                raise _another(prompt)
        return list(prompts)

    def handed_out(self, prompt: Prompt) -> bool:
        """Tells whether the run handed out exactly this prompt."""
        return self._prompts.get(prompt.id) == digest((prompt,))

    def check_handed_out(self, prompts: Iterable[Prompt]) -> None:
        """Checks that prompts about to be asked or learned from are those the run handed out.

        Raises:
            PartError: one was never handed out, or has the id of another.
        """
        for prompt in prompts:
            if not self.handed_out(prompt):
                raise _another(prompt)

    def may_return(self, rollout: Rollout) -> bool:
        """Tells whether a Replay part holds the rollout, and this run made or admitted it."""
        return rollout.id in self._requests

    def admit(self, groups: Iterable[Group], *, run: str) -> list[Group]:
        """Takes groups that another run recorded as if this one had made them.

        The rollouts are returned without spans, as their tokens are not of this run's ledger.

        Raises:
            PartError: a prompt is held out, or another one than this run's of the same id.
        """
        admitted = [_of_another(group, run=run) for group in groups]
        for group in admitted:
            if group.prompt.tokens in self.heldout:
                raise PartError(f"{run}: prompt {group.prompt.id!r} is held out in this run.")
            self.hand_out([group.prompt])
            self._requests |= {r.id: set() for r in group.rollouts}
        return admitted

    def join(self, rollouts: Iterable[Rollout]) -> None:
        """Remembers rollouts that were recalled for batches in the making."""
        self._joined.update(r.id for r in rollouts)

    def lend(self, rollouts: Sequence[Rollout], *, step: int) -> None:
        """Remembers the cut rollouts that a batch continues, since their tokens may change bin."""
        self._lent[step] = (*self._lent.get(step, ()), *rollouts)

    def take_back(self, *, step: int) -> None:
        """Forgets the cut rollouts that the batch for update `step` continued once it has ended."""
        self._lent.pop(step, None)

    def keep(self, harvest: Harvest, *, kept: set[str]) -> None:
        """Settles tokens that belong to no group, and forgets rollouts that nothing can bring back.

        Tokens of rollouts that Replay holds are buffered; those of rollouts it dropped are aborted.

        Args:
            harvest: what the batch that ends has produced.
            kept: ids of the rollouts that Replay parts hold from here on.
        """
        lent = {r.id for rollouts in self._lent.values() for r in rollouts}
        candidates = [*self._held.values(), *harvest.aborted]
        for rollout in candidates:
            if rollout.id in kept or rollout.id not in lent:
                self._ledger.settle(rollout.spans, bin=BUFFERED if rollout.id in kept else ABORTED)
        kept = kept | lent
        self._held = {r.id: r for r in candidates if r.id in kept}
        ended = [*(r for g in harvest.groups for r in g.rollouts), *harvest.aborted]
        # A rollout recalled for several batches is kept until the last of them has ended.
        self._joined -= Counter(r.id for r in ended)
        kept |= self._joined.keys()
        seen = {r.id: {s.request_id for s in r.spans} for r in ended}
        self._requests = {i: s for i, s in (self._requests | seen).items() if i in kept}
        self._ledger.fold(keep=set[str]().union(*self._requests.values()))

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint."""
        return {
            "prompts": dict(self._prompts),
            "held": dict(self._held),
            "requests": dict(self._requests),
            "joined": Counter(self._joined),
            "lent": dict(self._lent),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._prompts, self._lent = dict(state["prompts"]), dict(state["lent"])
        self._held, self._requests = dict(state["held"]), dict(state["requests"])
        self._joined = Counter[str](state["joined"])


def digest(prompts: Iterable[Prompt]) -> str:
    """Returns the SHA-256 of what is asked and what counts as right, in the order asked.

    Prompts are looked at one by one: a large split need not fit in memory.
    """
    total = sha256()
    for prompt in prompts:
        tokens = array("q", prompt.tokens).tobytes()
        text = _PLAIN.encode([len(tokens), prompt.id, prompt.answer, dict(prompt.meta)])
        total.update(text.encode() + b"\n" + tokens)
    return total.hexdigest()


def _another(prompt: Prompt) -> PartError:
    return PartError(
        f"training prompt {prompt.id!r} is another one than it was before in this run "
        "(its tokens, answer or meta): two prompts of the task have one id, or a part "
        "changed its meta or made it up. Give each prompt its own id, leave prompts as "
        "they are, and make new ones with `view.prompt`."
    )


def _of_another(group: Group, *, run: str) -> Group:
    """Returns the group under ids that no group of this run has."""
    name = f"{run}/{group.id}"
    rollouts = tuple(
        replace(r, id=f"{run}/{r.id}", group_id=name, spans=(), parent=None) for r in group.rollouts
    )
    return replace(group, id=name, rollouts=rollouts)


def _text(value: object) -> str:
    """Writes an object of a prompt's `meta` as text that is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


_PLAIN = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_text)
