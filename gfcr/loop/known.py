"""The prompts that a run has handed out, and the rollouts that may come back, by id.

Rollouts are read-only, so an id stands for all that a rollout holds. Tokens of what Replay keeps
are accounted for here, since no group of the batch has them.
"""

import json
import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, final

import numpy as np

from gfcr.errors import PartError
from gfcr.ledger import ABORTED, BUFFERED, Ledger, rejected
from gfcr.stages import Harvest
from gfcr.types import Group, Prompt, Rollout, Sample, Span
from gfcr.values.columns import COLUMNS

_LONG_AGO: Final = -(2**30)
"""Version of another run's policies, whose updates say nothing of this run's."""


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
        # Every checkpoint has an entry for each prompt ever handed out: a digest is small.
        self._prompts: dict[str, str] = {}
        """Digest of each prompt that was handed out, by id."""
        self.learning: dict[int, Sequence[Sample]] = {}
        """Samples of the batches that have not been learned from yet, by update."""
        self._before = frozenset[str]()
        """Digests of those handed out before the data were exchanged, which may come back."""
        self._lent: dict[int, frozenset[str]] = {}
        """Ids of the rollouts that each batch in the making was given, by the update it is for."""
        self._held: dict[str, tuple[tuple[Span, ...], str, str]] = {}
        """What a Replay part keeps or a batch was given, by the rollout's id: its tokens, which may
        change bin; its group's prompt by id, empty for a group that was cut; and, unless an update
        trained on it, the bin of its tokens once it is dropped."""

    def hand_out(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Remembers prompts that are given to a part, and returns them.

        Raises:
            PartError: one has the id of another, or was changed since it was handed out before.
        """
        for prompt in prompts:
            new = digest((prompt,))
            if new not in self._before and self._prompts.setdefault(prompt.id, new) != new:
                raise _another(prompt)
        return list(prompts)

    def exchanged(self) -> None:
        """Lets an id stand for another prompt from here on, as where answers were mended."""
        self._before, self._prompts = self._before.union(self._prompts.values()), {}

    def handed_out(self, prompt: Prompt) -> bool:
        """Tells whether the run handed out exactly this prompt."""
        own = digest((prompt,))
        return own in self._before or self._prompts.get(prompt.id) == own

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
        return rollout.id in self._held

    def answers(self, rollout: Rollout, *, prompt: Prompt) -> bool:
        """Tells whether a rollout answers a prompt, itself or as one of a complete group of it."""
        _, asked, _ = self._held.get(rollout.id, ((), "", ""))
        return rollout.prompt.tokens == prompt.tokens or asked == prompt.id

    def admit(self, groups: Iterable[Group], *, run: str) -> list[Group]:
        """Takes groups that another run recorded as if this one had made them.

        The rollouts are returned without spans, as their tokens are not of this run's ledger.

        Raises:
            PartError: a prompt is held out, or another one than this run's of the same id.
        """
        admitted = [_of_another(group, run=run) for group in groups]
        for group in admitted:
            # Another run may know a held-out prompt by another id, but not by other tokens.
            if group.prompt.tokens in self.heldout:
                raise PartError(f"{run}: prompt {group.prompt.id!r} is held out in this run.")
            self.hand_out([group.prompt])
            self._held |= {r.id: ((), group.prompt.id, "") for r in group.rollouts}
        return admitted

    def lend(self, rollouts: Sequence[Rollout], *, batch: int) -> tuple[Rollout, ...]:
        """Remembers what a batch is given, as its tokens may change bin, and returns it.

        Rollouts of groups that were cut are to be continued; all others are marked as replayed.
        """
        self._lent[batch] = self._lent.get(batch, frozenset()) | {r.id for r in rollouts}
        whole = {r.id for r in rollouts if self._held[r.id][1]}
        return tuple(replace(r, origin="replay") if r.id in whole else r for r in rollouts)

    def take_back(self, *, batch: int) -> None:
        """Forgets what the batch of that number was given once it has ended."""
        self._lent.pop(batch, None)

    def keep(self, harvest: Harvest, *, kept: set[str]) -> None:
        """Settles tokens that no update trained on, and forgets rollouts that cannot come back.

        Those of rollouts that Replay holds are buffered, whoever turned them down; those of
        rollouts that it dropped are aborted or rejected.

        Args:
            harvest: what the batch that ends has produced.
            kept: ids of the rollouts that Replay parts hold from here on.
        """
        lent = frozenset[str]().union(*self._lent.values())
        stays = kept | lent
        made = {
            r.id: (r.spans, g.prompt.id, rejected(why) if why else "")
            for g in harvest.groups
            for r, why in zip(g.rollouts, g.reasons, strict=True)
            if r.id in stays
        }
        # Tokens of a replayed rollout that was cut are an earlier batch's, and keep their bin.
        cut = {r.id: (r.spans, "", ABORTED) for r in harvest.aborted if r.origin == "fresh"}
        # What this batch says of a rollout replaces what was held of it before.
        every = self._held | cut | made
        # Those dropped first: what they share with one that is held is held.
        for name, (spans, _, bin) in sorted(every.items(), key=lambda item: item[0] in kept):
            # A batch in the making may still train what it was lent: that is settled when it ends.
            if bin and (name in kept or name not in lent):
                self._ledger.settle(spans, bin=BUFFERED if name in kept else bin)
        self._held = {name: held for name, held in every.items() if name in stays}
        tokens = [spans for spans, _, _ in self._held.values()]
        # A correction may yet mask those of a batch that a later one has replayed.
        tokens += [s.rollout.spans for samples in self.learning.values() for s in samples]
        # Places of tokens take a byte each for the whole run, unless they are folded.
        self._ledger.fold(keep={s.request_id for spans in tokens for s in spans})

    def state_dict(self) -> dict[str, Any]:
        """Returns the state for a checkpoint."""
        held = {"prompts": {**self._prompts}, "given": {**self._held}, "lent": {**self._lent}}
        return {**held, "before": self._before}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._prompts, self._lent = dict(state["prompts"]), dict(state["lent"])
        self._held, self._before = dict(state["given"]), frozenset(state["before"])


def digest(prompts: Iterable[Prompt]) -> str:
    """Returns the SHA-256 of what is asked and what counts as right, in the order asked.

    Prompts are looked at one by one: a large split need not fit in memory.
    """
    total = sha256()
    for prompt in prompts:
        tokens = array("q", prompt.tokens).tobytes()
        meta = {k: v for k, v in prompt.meta.items() if k != COLUMNS}
        text = PLAIN.encode([len(tokens), prompt.id, prompt.answer, meta])
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
    """Returns the group under ids that no group of this run has, by policies long before it."""
    name = f"{run}/{group.id}"
    rollouts = tuple(
        replace(
            r,
            id=f"{run}/{r.id}",
            group_id=name,
            versions_T=np.full_like(r.versions_T, _LONG_AGO),
            spans=(),
            parent=None,
        )
        for r in group.rollouts
    )
    return replace(group, id=name, rollouts=rollouts)


def _text(value: object) -> str:
    """Writes an object of a prompt's `meta` as text that is the same in every process."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(value))


PLAIN: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_text)
