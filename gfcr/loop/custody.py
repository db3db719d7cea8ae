"""What a run trains on is what its engine and its verifier gave for prompts that it handed out.

Parts see rollouts and prompts as Python objects, which can be changed in place, invented, or given
back as others. What each was is taken down before a part sees it, and compared before the trainer
has it.
"""

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b, sha256
from typing import Any, final

from gfcr.errors import PartError
from gfcr.ledger import ABORTED, BUFFERED, Ledger
from gfcr.stages import Harvest
from gfcr.types import Group, Prompt, Rollout


@final
class Custody:
    """Keeps a digest of every prompt handed out and of every rollout that may yet be trained on."""

    def __init__(self, *, ledger: Ledger, heldout: Iterable[Prompt]) -> None:
        """Begins with nothing.

        Args:
            ledger: of the run.
            heldout: prompts that are never trained on, whoever brings them.
        """
        self.heldout = frozenset(p.tokens for p in heldout)
        self._ledger = ledger
        self._prompts: dict[str, bytes] = {}
        self._made: dict[str, bytes] = {}
        self._own, self._joined = dict[str, str](), Counter[str]()
        """Rollouts completed for the batches in the making, by provenance, and those recalled."""
        self._lent: dict[int, tuple[Rollout, ...]] = {}
        """Of an earlier batch, which one in the making goes on from, by its step."""
        self._held: dict[str, Rollout] = {}
        """Aborted rollouts a Replay part keeps: their tokens are buffered."""
        self._requests: dict[str, set[str]] = {}
        """Engine requests behind each rollout a Replay part keeps: their tokens may yet move."""

    # ------------------------------------------------------------ taking down

    def hand_out(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Takes down prompts of the paired stream on their way to a part, and gives them back.

        Raises:
            PartError: one differs from what it was when it was handed out before.
        """
        for prompt in prompts:
            new = _of_prompt(prompt)
            if self._prompts.setdefault(prompt.id, new) != new:
                raise _changed(prompt)
        return list(prompts)

    def take(self, rollouts: Iterable[Rollout]) -> None:
        """Takes down rollouts as the runner completes them.

        Raises:
            PartError: a prompt was changed while they were made.
        """
        found = list(rollouts)
        for prompt in {id(r.prompt): r.prompt for r in found}.values():
            if not self.handed_out(prompt):
                raise _changed(prompt)
        self._made |= {rollout.id: _of_rollout(rollout) for rollout in found}
        self._own.update({rollout.id: rollout.origin for rollout in found})

    def admit(self, groups: Iterable[Group], *, run: str) -> list[Group]:
        """Takes down what another run recorded, as if this one had made it.

        None of its tokens are this run's: the rollouts have no spans.

        Raises:
            PartError: a prompt is held out, or another one than this run's of the same id.
        """
        admitted = [_of_another(group, run=run) for group in groups]
        for group in admitted:
            if group.prompt.tokens in self.heldout:
                raise PartError(f"{run}: prompt {group.prompt.id!r} is held out in this run.")
            self.hand_out([r.prompt for r in group.rollouts])
            self._made |= {r.id: _of_rollout(r) for r in group.rollouts}
            self._requests |= {r.id: set() for r in group.rollouts}
        return admitted

    def join(self, rollouts: Iterable[Rollout]) -> None:
        """Takes down which rollouts of earlier groups are recalled for a batch."""
        self._joined.update(r.id for r in rollouts)

    def lend(self, rollouts: Sequence[Rollout], *, step: int) -> None:
        """Takes down from which rollouts of earlier batches one goes on: their tokens may move."""
        self._lent[step] = (*self._lent.get(step, ()), *rollouts)

    def take_back(self, *, step: int) -> None:
        """Takes down that the batch for an update has ended."""
        self._lent.pop(step, None)

    # ------------------------------------------------------------ comparing

    def handed_out(self, prompt: Prompt) -> bool:
        """Whether it is a prompt that this run handed out, as it was."""
        return self._prompts.get(prompt.id) == _of_prompt(prompt)

    def made(self, rollout: Rollout) -> bool:
        """Whether this run made it, as it is, in this batch or for a Replay part that holds it."""
        try:
            return self._made.get(rollout.id) == _of_rollout(rollout)
        except Exception:  # whatever was put in the place of its arrays
            return False

    def check(self, harvest: Harvest) -> None:
        """Vouches for a batch: nothing held out, and every rollout as it was when it was made.

        Raises:
            PartError: a part changed or invented one; which part cannot be told.
        """
        for rollout in _rollouts(harvest):
            own = self._own.get(rollout.id) == rollout.origin
            if not self.made(rollout) or not (own or rollout.id in self._joined):
                raise PartError(
                    f"update {harvest.step}: rollout {rollout.id} is not what the engine sampled "
                    "and the verifier scored (its tokens, log-probs, versions, mask, spans, text, "
                    "reward or prompt): a part of the strategy changed it in place, or made it up. "
                    "Annotate groups with signals (`with_rewards`, `with_advantages`), and leave "
                    "rollouts and prompts as they are."
                )
        for group in harvest.groups:
            if any(r.prompt.tokens in self.heldout for r in group.rollouts):
                raise PartError(
                    f"update {harvest.step}: group {group.id} is of a held-out prompt: nothing "
                    "held out is ever trained on. Keep the splits of the task apart."
                )

    # ------------------------------------------------------------ from update to update

    def keep(self, harvest: Harvest, *, kept: set[str]) -> None:
        """Settles the tokens that no group has: what Replay holds, and what it dropped.

        What it holds is buffered; what it held and dropped since is aborted after all.
        """
        lent = {r.id: r for rollouts in self._lent.values() for r in rollouts}
        candidates = [*self._held.values(), *harvest.aborted]
        for rollout in candidates:
            if rollout.id in kept or rollout.id not in lent:
                self._ledger.settle(rollout.spans, bin=BUFFERED if rollout.id in kept else ABORTED)
        kept |= lent.keys()
        self._held = {r.id: r for r in candidates if r.id in kept}
        kept |= (self._joined - Counter(r.id for r in _rollouts(harvest))).keys()
        seen = {r.id: {s.request_id for s in r.spans} for r in _rollouts(harvest)}
        self._requests = {i: s for i, s in (self._requests | seen).items() if i in kept}
        self._ledger.fold(keep=set[str]().union(*self._requests.values()))

    def forget(self, harvest: Harvest) -> None:
        """Ends a batch: of its rollouts those that Replay holds are remembered."""
        over = {r.id for r in _rollouts(harvest)}
        self._own = {i: origin for i, origin in self._own.items() if i not in over}
        self._joined -= Counter(over)
        kept = self._requests.keys() | self._own.keys() | self._joined.keys()
        self._made = {i: made for i, made in self._made.items() if i in kept}

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to go on after the batch."""
        return {
            "prompts": dict(self._prompts),
            "made": dict(self._made),
            "held": dict(self._held),
            "requests": dict(self._requests),
            "own": dict(self._own),
            "joined": Counter(self._joined),
            "lent": dict(self._lent),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._prompts, self._made = dict(state["prompts"]), dict(state["made"])
        self._held, self._requests = dict(state["held"]), dict(state["requests"])
        self._own, self._joined = dict(state["own"]), Counter[str](state["joined"])
        self._lent = dict(state["lent"])


def _rollouts(harvest: Harvest) -> list[Rollout]:
    return [*(r for g in harvest.groups for r in g.rollouts), *harvest.aborted]


def _of_another(group: Group, *, run: str) -> Group:
    """A group with names that no group of this run has."""
    name = f"{run}/{group.id}"
    rollouts = tuple(
        replace(r, id=f"{run}/{r.id}", group_id=name, spans=(), parent=None) for r in group.rollouts
    )
    return replace(group, id=name, rollouts=rollouts)


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


def _changed(prompt: Prompt) -> PartError:
    return PartError(
        f"training prompt {prompt.id!r} is another one than it was before in this run (its tokens, "
        "answer or meta): a part of the strategy or the verifier changed it in place, or two "
        "prompts of the task have one id. Leave prompts as they are, and give each its own id."
    )


def _of_prompt(prompt: Prompt) -> bytes:
    return bytes.fromhex(digest((prompt,)))[:16]


def _of_rollout(rollout: Rollout) -> bytes:
    """The digest of all that training, the ledger and the records take from a rollout.

    Not its `origin`, which recalling changes, nor the `meta` of its prompt.
    """
    columns = (rollout.tokens_T, rollout.logprobs_T, rollout.versions_T, rollout.mask_T)
    held = [b for c in columns for b in (f"{c.dtype.str}{c.shape}".encode(), c.tobytes())]
    prompt, spans = rollout.prompt, [(s.request_id, s.start, s.stop) for s in rollout.spans]
    own = (rollout.id, rollout.group_id, rollout.step, rollout.reward, rollout.finish.value)
    said = repr((*own, rollout.text, prompt.id, prompt.answer, spans)).encode()
    held += (array("q", prompt.tokens).tobytes(), said)
    return blake2b(b"".join(held), digest_size=16).digest()


def _text(value: object) -> str:
    """An object of a prompt's `meta` as text that is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


_PLAIN = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_text)
