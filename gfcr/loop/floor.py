"""What rollouts are made with: the engine and its requests, the verifier, codec and ledger."""

import logging
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Protocol, TypeVar, final

from gfcr.engine.base import Delta, Engine, Request, merged
from gfcr.errors import EngineError, GfcrError, PartError, described, shown
from gfcr.ledger import Ledger
from gfcr.loop.checks import misfit
from gfcr.loop.jobs import check_room
from gfcr.loop.scoring import Desk
from gfcr.process import lease
from gfcr.stages import Job, View
from gfcr.tasks.base import Codec
from gfcr.types import Sampling
from gfcr.values.numbers import is_count, real

log = logging.getLogger(__name__)
_PRIORITIES: Final = 1 << 20
"""How many priorities one batch has; a later batch's are all above."""


class Asker(Protocol):
    """Something that has a request in the engine: a trajectory."""

    def ask(self) -> Request:
        """Makes the request for the tokens that it still lacks."""
        ...


T = TypeVar("T", bound=Asker)


@final
class Traffic(Generic[T]):
    """Maps the requests in an engine to those who sent them.

    An engine's error is kept, so that a Generate part awaiting it is not taken for the cause.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._asking: dict[str, T] = {}
        self._ids: dict[T, str] = {}
        self._waiting: dict[T, None] = {}
        """Askers whose requests are sent to the engine by `go_on`."""
        self._open = True
        self._error: GfcrError | None = None

    def __len__(self) -> int:
        return len(self._ids) + len(self._waiting)

    def submit(self, asker: T) -> None:
        """Sends the request of `asker` to the engine, or notes it while requests are parked."""
        if not self._open:
            self._waiting[asker] = None
            return
        request = asker.ask()
        with self.at(f"taking request {request.id!r}"):
            self._engine.submit(request)
        # A request that the engine has refused must not count as one in flight.
        self._asking[request.id], self._ids[asker] = asker, request.id

    def decodes(self, batch: int) -> bool:
        """Returns whether a request of a batch is in the engine: ids begin with its number."""
        return any(request_id.startswith(f"{batch}:") for request_id in self._asking)

    def withdraw(self, asker: T) -> None:
        """Drops the request that `asker` still has in flight, if any."""
        self._waiting.pop(asker, None)
        if (request_id := self._ids.pop(asker, None)) is not None:
            del self._asking[request_id]
            with self.at(f"dropping request {request_id!r}"):
                self._engine.abort([request_id])

    def step(self) -> Iterator[tuple[T, Delta]]:
        """Runs one engine step; yields what each request gained, with who asked.

        Raises:
            EngineError: the engine failed, or gave an answer that is not valid.
        """
        # A failed engine is not stepped again: `check` raises its error once parts have run.
        if not self._asking or self._error is not None:
            return
        lease.decoding(left=len(self._asking))
        with self.at("a step"):
            deltas = self._engine.step()
        # A stop may withdraw a request: what came behind it in the same step goes with it.
        for delta in merged(deltas):
            asker = self._asking.get(delta.request_id)
            problem = delta.problem if asker else "nobody asked for it"
            if asker is None or problem:
                raise EngineError(
                    f"the engine's answer to request {delta.request_id!r}: {problem}."
                )
            # Before the yield, in which the asker may send its next request.
            if delta.finish is not None:
                del self._asking[delta.request_id], self._ids[asker]
            yield asker, delta

    def park(self) -> None:
        """Takes all requests out of the engine, which is then free for new weights or others."""
        self._engine.abort(list(self._asking))
        self._waiting |= dict.fromkeys(self._ids)
        self._asking.clear()
        self._ids.clear()
        self._open = False

    def go_on(self) -> None:
        """Sends parked requests to the engine again, each with the tokens it had gained so far."""
        self._open = True
        waiting, self._waiting = self._waiting, {}
        for asker in waiting:
            self.submit(asker)

    def clear(self) -> None:
        """Drops all requests, in the engine and parked."""
        self._engine.abort(list(self._asking))
        for held in (self._asking, self._ids, self._waiting):
            held.clear()
        self._error = None

    def check(self) -> None:
        """Raises the engine's error again, even if a part has caught it."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def at(self, work: str) -> Generator[None]:
        """Keeps the error that the engine raises during `work`.

        Raises:
            EngineError: the engine failed.
        """
        try:
            yield
        except GfcrError as error:
            self._error = error
            raise
        except Exception as error:
            self._error = EngineError(f"the engine failed at {work}: {described(error)}")
            raise self._error from error


@final
class Told:
    """Logs the first failure of each kind; metrics count all of them."""

    def __init__(self) -> None:
        self._kinds = set[str]()

    def tell(self, kind: str, words: str, *, error: BaseException | None = None) -> None:
        """Logs `words`, with the error's traceback, unless its kind was logged before."""
        if kind not in self._kinds:
            self._kinds.add(kind)
            log.error("%s (the first one; see `unscorable/*`)", words, exc_info=error)


@final
@dataclass(kw_only=True)
class Floor:
    """Holds what training, or one evaluation, makes its rollouts with."""

    engine: Engine
    codec: Codec
    desk: Desk
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    told: Told = field(default_factory=Told)
    """Kinds of failures that were already logged."""
    heldout: Collection[tuple[int, ...]] = frozenset[tuple[int, ...]]()
    """Token sequences of the held-out prompts, which must not be asked in training."""
    learns_any_heat: bool = False
    """Whether tokens sampled at another temperature than the run's may be used: the loss corrects
    for it, or nothing is learned from them."""
    address: str = "generate"
    """The strategy address of the Generate part, for messages."""
    traffic: Traffic[Any] = field(init=False)
    # The order of a set of texts differs between processes, that of a dictionary does not.
    touched: dict[str, None] = field(init=False, default_factory=dict[str, None])
    """Ids of groups whose state may have changed; a step checks only these."""

    def __post_init__(self) -> None:
        self.traffic = Traffic(self.engine)

    def check(self, tokens: tuple[int, ...], *, sampling: Sampling, what: str) -> None:
        """Checks that a part may ask these tokens in place of its job's prompt or on the side.

        Raises:
            TaskError: the tokens and the longest rollout do not fit the engine's context.
            PartError: they are a held-out prompt.
        """
        check_room(tokens, sampling, max_length=self.engine.max_length, what=what)
        if tokens in self.heldout:
            raise PartError(f"{what} is held out: nothing held out is asked in training.")

    def capped(self, sampling: Sampling, *, max_tokens: int) -> Sampling:
        """Returns the sampling with a trajectory's own cap on its tokens.

        Raises:
            PartError: the cap is no positive integer, or above the job's.
        """
        if is_count(max_tokens) and max_tokens <= sampling.max_tokens:
            return replace(sampling, max_tokens=max_tokens)
        raise misfit(
            self.address,
            f"opened a trajectory with max_tokens={shown(max_tokens)}: give an integer from 1 to "
            f"the job's {sampling.max_tokens}",
        )

    def heated(self, sampling: Sampling, *, temperature: float) -> Sampling:
        """Returns the sampling at a trajectory's own temperature.

        Raises:
            PartError: it is no temperature, or the loss would take its tokens for the policy's own.
        """
        heat, ours = real(temperature), sampling.temperature
        # At temperature 0 engines report log-probs of temperature 1: no correction can use those.
        if heat is not None and (heat == ours or (heat > 0 and self.learns_any_heat)):
            return replace(sampling, temperature=heat)
        raise misfit(
            self.address,
            f"opened a trajectory with temperature={shown(temperature)} (job: {ours!r}). Another "
            "one must be above 0, and is only learned from with strategy.correction or "
            "loss.off_policy='behaviour'",
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a trajectory is sampled for: its group, job, batch view and repeat."""

    floor: Floor
    group_id: str
    job: Job
    view: View
    """The view of the batch that the group is for."""
    repeat: int
    """How often the job's prompt was begun before in the same batch."""

    @property
    def priority(self) -> int:
        """Priority of its requests: those of the earlier of two batches in the making go first.

        This also holds where its refills or parked requests reach the engine after the next one's.
        """
        return self.job.step * _PRIORITIES + self.job.priority

    def touch(self) -> None:
        """Marks the group as one whose state may have changed."""
        self.floor.touched[self.group_id] = None

    def tell(self, error: BaseException | str, *, rollout: str) -> str:
        """Logs a failure of the Generate part, and returns it in words."""
        cause, address = error if isinstance(error, BaseException) else None, self.floor.address
        words = described(cause) if cause else str(error)
        said = f"strategy.{address} failed on prompt {self.job.prompt.id!r}, rollout {rollout}"
        self.floor.told.tell(address, f"{said}: {words}", error=cause)
        return words
