"""Errors a user can act on, kept apart from programming errors.

Every message says what was given, what is allowed and what to do. The command line prints a
`GfcrError` without a traceback and exits with 2.
"""

import difflib
import re
import traceback
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

AWAITS: Final = (
    "a part runs in no asyncio loop: await only what its session or scratch and their trajectories "
    "give; `session.call(function, *args)` runs what is slow"
)
"""What a coroutine of a part may wait for."""


class GfcrError(Exception):
    """Base of everything gfcr raises on purpose."""


class ConfigError(GfcrError, ValueError):
    """A key, value or name in a configuration is wrong."""


class TaskError(GfcrError, ValueError):
    """A task cannot be built or has nothing to offer (empty dataset, missing column)."""


class EngineError(GfcrError, RuntimeError):
    """The inference engine refused a request or lost its state."""


class BatchCannotFill(GfcrError, RuntimeError):
    """Every allowed round was spent and the batch still lacks accepted groups."""


class PartError(GfcrError, RuntimeError):
    """A part of the strategy failed or gave back what cannot be used; names its address."""


class TrainingError(GfcrError, ArithmeticError):
    """A loss, a gradient or a weight is not finite."""


class CheckpointError(GfcrError, RuntimeError):
    """A checkpoint is missing, incomplete or belongs to another experiment."""


def damaged(file: Path, *, why: str) -> CheckpointError:
    """Builds the error for a file of a run's folder that is not as the run wrote it."""
    return CheckpointError(
        f"{file} is damaged or missing ({why}): put it back from a copy, or start over with "
        "--fresh, which keeps this folder under another name."
    )


class ForeignCheckpointError(CheckpointError):
    """A whole checkpoint is another run's, or another attempt's: no run goes on from it."""


class StoreError(GfcrError, RuntimeError):
    """A tracking store cannot be reached, read or written."""


class FolderInUse(GfcrError, RuntimeError):
    """Another process writes to the folder of a run."""


class FolderLost(GfcrError, RuntimeError):
    """The lock file of a folder was removed while its holder wrote there: the holder stops."""


def did_you_mean(given: str, allowed: Iterable[str], *, most: int = 1) -> str:
    """Returns ` Did you mean 'x'?` for the nearest allowed names, or an empty string."""
    near = difflib.get_close_matches(given[:200], list(allowed), n=most, cutoff=0.5)
    return " Did you mean {}?".format(" or ".join(f"'{n}'" for n in near)) if near else ""


def near_file(path: Path) -> str:
    """Returns ` Did you mean 'x'?` for the nearest name in the path's folder, or nothing."""
    try:
        return did_you_mean(path.name, sorted(beside.name for beside in path.parent.iterdir()))
    except (OSError, ValueError):  # there is no such folder, or a name that no file can have
        return ""


def shown(value: object) -> str:
    """Returns a value as a message gives it: short, whatever it is."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of thousands of digits
        text = f"a {type(value).__name__} too large to write"
    return text if len(text) <= 200 else f"{text[:200]}..."


def unknown_name(given: str, *, kind: str, allowed: Iterable[str], where: str = "") -> ConfigError:
    """Builds the error for a name that is not among `allowed`."""
    names = sorted(allowed)
    place = f" in {where}" if where else ""
    return ConfigError(
        f"unknown {kind} {shown(given)}{place}.{did_you_mean(given, names)} "
        f"Allowed: {', '.join(names)}."
    )


def missing_part(
    name: str, *, key: str, held: Mapping[str, Collection[str]], removes: bool
) -> ConfigError:
    """Builds the error for a part that is changed or removed, and that a strategy does not have.

    Args:
        name: the part's name in the mapping, as given.
        key: the mapping's key: `filters`, `controls` or `replays`.
        held: the names of the strategy's parts, by mapping.
        removes: whether null was given, which removes.
    """
    own, stage = list(held[key]), key.removesuffix("s")
    others = (other for other in held if other != key and name in held[other])
    elsewhere = "".join(f" It is a {o.removesuffix('s')}: strategy.{o}.{name}." for o in others)
    remedy = f"To add one, give `{name}: {{name: PART}}`."
    if removes:
        remedy = "Null removes a part that is there: give the name of one, or leave this key out."
    return ConfigError(
        f"strategy.{key}.{name}{'=null' if removes else ''}: this strategy has no {stage} "
        f"'{name}'. It has: {', '.join(own) or 'none'}.{did_you_mean(name, own)}{elsewhere} "
        f"{remedy}"
    )


def shortened(text: str, most: int = 2000) -> str:
    """The text, or its head and tail with the number of characters left out between."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} [... {len(text) - 2 * half:,} characters left out ...] {text[-half:]}"


@contextmanager
def asking(address: str) -> Generator[None]:
    """Names the part that is asked: what it raises becomes a `PartError` with its address.

    A `GfcrError` stays what it is: it was written for the user.
    """
    try:
        yield
    except GfcrError:
        raise
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{last.filename}:{last.lineno}, in {last.name}"
        raise PartError(
            f"strategy.{address} failed: {described(error)} ({where}). Mend the part, or take it "
            "out of the strategy; --debug shows the traceback."
        ) from error


@contextmanager
def restoring(what: str) -> Generator[None]:
    """What cannot be read back becomes a `ForeignCheckpointError` that says so."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise ForeignCheckpointError(
            f"The checkpoint's {what} cannot be read back ({described(error)}): another version of "
            "gfcr or of a part wrote it. Go on with that one, or start over: gfcr run --fresh "
            "keeps the run's folder under another name."
        ) from error


def described(error: BaseException) -> str:
    """An exception in one text of bounded length."""
    try:
        words = " ".join([str(error), *getattr(error, "__notes__", ())])
    except Exception as worse:  # written by whoever wrote the part
        words = f"its message cannot be shown ({type(worse).__name__})"
    rule = AWAITS if "no running event loop" in words else _by_name(error, words)
    told = f"{type(error).__name__}: {words}{rule and f': {rule}'}"
    # Half of a surrogate pair, as JSON may hold, is in no file.
    return shortened(told.encode(errors="backslashreplace").decode())


def _by_name(error: BaseException, words: str) -> str:
    """Returns how to make a record whose fields were given by position; nothing elsewhere."""
    found = re.match(r"(\w+)\.__init__\(\) takes 1 positional argument but ", words)
    if found is None or error.__traceback__ is None:
        return ""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    record = {**frame.f_globals, **frame.f_locals}.get(found[1])
    names = ", ".join(f"{name}=..." for name in getattr(record, "__dataclass_fields__", {}))
    return f"give its fields by name, {found[1]}({names})" if names else ""
