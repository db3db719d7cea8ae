"""The command line: `gfcr COMMAND`.

One JSON object on stdout with `--json` and nothing else there; progress and words on stderr. Exit
code 0: done; 1: ran, and the answer is no; 2: bad input, with what to do about it; 74: done, but
the answer could not be written; 130 or 143: interrupted by SIGINT or SIGTERM, with how to go on.
"""

import argparse
import importlib
import json
import logging
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO, cast

from gfcr.code import optional
from gfcr.commands import Outcome
from gfcr.commands.parser import COMMANDS, module_of, whole
from gfcr.errors import ConfigError, GfcrError
from gfcr.process import streams
from gfcr.process.environment import settle
from gfcr.process.launched import place
from gfcr.process.signals import Interrupted, interruptible

_RESUMED = ("run", "sweep", "demo", "bench", "regime", "claims")
"""Commands that go on where they were stopped."""
_UNWRITTEN: Final = 74
"""Exit code where the answer could not be written, as sysexits.h has it for input and output."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    with streams.sound():
        try:
            return _run(given)
        finally:
            _finish_stdout()
            if arguments is None:  # what is printed while this process ends is no answer
                os.dup2(streams.ERR, streams.OUT)


def _run(given: Sequence[str]) -> int:
    options = _parse(given)
    settle(level=logging.DEBUG if options.debug else logging.ERROR)
    if (where := place()).rank:
        return _follow(options)
    with _Stdout() as stdout, streams.progress_only(), interruptible():
        try:
            if where.size > 1:
                _lead(options, size=where.size)
            outcome = module_of(options.command).run(options)
            if where.size > 1:
                importlib.import_module("gfcr.train.ranks").joined().tell(None)
        except GfcrError as error:
            return _fail(error, options=options, stdout=stdout)
        except ModuleNotFoundError as error:
            told = optional.missing(error)
            unexpected = told is None
            return _fail(told or error, options=options, stdout=stdout, unexpected=unexpected)
        except KeyboardInterrupt as error:
            return _interrupted(error, given=given, options=options, stdout=stdout)
        except Exception as error:
            return _fail(error, options=options, stdout=stdout, unexpected=True)
        try:
            _answer(outcome, options=options, stdout=stdout)
        except OSError as error:
            return _unwritten(error, outcome=outcome, options=options)
    return outcome.code


def _answer(outcome: Outcome, *, options: argparse.Namespace, stdout: TextIO) -> None:
    """Writes the answer of a command to stdout.

    Raises:
        OSError: it cannot be written.
    """
    if options.json:
        print(outcome.json, file=stdout)
    elif outcome.plain is not None:
        print(outcome.plain.rstrip("\n"), file=stdout)
    elif outcome.text is not None:
        _show(outcome.text, stdout=stdout)
    stdout.flush()


def _unwritten(error: OSError, *, outcome: Outcome, options: argparse.Namespace) -> int:
    """Says where the result is that stdout did not take; a reader that left knows that it did."""
    folder = _folder_of(outcome.data)
    where = f"It is in {folder}" if folder else "Run it again"
    if folder or not isinstance(error, BrokenPipeError):
        why = os.strerror(error.errno or 0)
        said = f"the answer cannot be written to stdout ({why}). {where}."
        print(f"gfcr {options.command}: {said}", file=sys.stderr)
    return _UNWRITTEN


def _folder_of(data: object) -> str | None:
    """Returns the folder with what a command has made, of a run or a study; None without one."""
    if not isinstance(data, Mapping):
        return None
    held = cast("Mapping[str, Any]", data)
    found = held.get("folder")
    trials = cast("list[Any]", held["trials"]) if isinstance(held.get("trials"), list) else []
    for trial in trials:
        if found is None and isinstance(trial, dict) and "folder" in trial:
            found = Path(str(cast("Any", trial)["folder"])).parent.parent  # study/arm/run
    return str(found) if found is not None and Path(str(found)).is_dir() else None


def _finish_stdout() -> None:
    """Writes what argparse has printed, such as help; a reader that left is told nothing."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        streams.drop(streams.OUT)
    except OSError as error:
        streams.drop(streams.OUT)
        print(
            f"gfcr: stdout cannot be written to ({os.strerror(error.errno or 0)}).", file=sys.stderr
        )
        raise SystemExit(_UNWRITTEN) from None


def _lead(options: argparse.Namespace, *, size: int) -> None:
    """Meets the processes that were launched with this one, which train with it.

    Raises:
        ConfigError: the command trains nothing with them.
    """
    if options.command != "run":
        raise ConfigError(
            f"{size} processes were launched for `gfcr {options.command}`: only `gfcr run` trains "
            "in several. Start it without `accelerate launch`."
        )
    importlib.import_module("gfcr.train.ranks").joined()


def _follow(options: argparse.Namespace) -> int:
    """Trains with process 0, which runs the command and says all there is to say."""
    if options.command != "run":
        return 2
    libraries = importlib.import_module("gfcr.train.trl").Trl.libraries
    with _Stdout():
        ranks = importlib.import_module("gfcr.train.ranks")
        return ranks.follow(options.command, libraries=libraries)


class _Stdout:
    """Keeps stdout for the answer: whatever libraries print there meanwhile goes to stderr."""

    def __enter__(self) -> TextIO:
        sys.stdout.flush()
        self._kept = os.dup(1)
        os.dup2(2, 1)
        self._answers = os.fdopen(os.dup(self._kept), "w", buffering=1)
        return self._answers

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        os.dup2(self._kept, 1)
        os.close(self._kept)
        with suppress(OSError):  # which is told already
            self._answers.close()


def _parse(given: Sequence[str]) -> argparse.Namespace:
    """Overrides may also follow flags, which argparse alone does not see as theirs."""
    named = next((a for a in given if not a.startswith("-")), None)
    # Only the module of the command that is named is imported.
    parser = whole(of=[named if named in COMMANDS else None])
    options, rest = parser.parse_known_args(given)
    if hasattr(options, "overrides") and not any(word.startswith("-") for word in rest):
        options.overrides = [*options.overrides, *rest]
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return options


def _fail(
    error: Exception, *, options: argparse.Namespace, stdout: TextIO, unexpected: bool = False
) -> int:
    if options.debug:
        import traceback

        traceback.print_exception(error)
    kind = f"{type(error).__name__}: " if unexpected else ""
    hint = " (this is not an input error we know; --debug shows where)" if unexpected else ""
    if options.json:
        failure = {"error": f"{kind}{error}", "type": type(error).__name__}
        with suppress(OSError):  # it is told on stderr, too
            print(json.dumps(failure), file=stdout)
    print(f"gfcr {options.command}: {kind}{error}{hint}", file=sys.stderr)
    return 1 if unexpected else 2


def _interrupted(
    error: KeyboardInterrupt,
    *,
    given: Sequence[str],
    options: argparse.Namespace,
    stdout: TextIO,
) -> int:
    """Says how to go on; `--fresh` would start over once more, also what had begun."""
    number = error.number if isinstance(error, Interrupted) else signal.SIGINT
    word = "paused" if options.command in _RESUMED else "interrupted"
    resume = shlex.join(["gfcr", *(word for word in given if word != "--fresh")])
    if options.json:
        run = error.paused if isinstance(error, Interrupted) else None
        answer = {**(run or {}), "status": word, "resume": resume}
        with suppress(OSError):  # how to go on is told on stderr, too
            print(json.dumps({**answer, "interrupted": signal.Signals(number).name}), file=stdout)
    kept = options.command == "sweep" and "--fresh" in given
    note = " (trials that had not begun keep their earlier runs)" if kept else ""
    print(f"gfcr {options.command}: {word}. To go on: {resume}{note}", file=sys.stderr)
    return 128 + number


def _show(text: Any, *, stdout: TextIO) -> None:
    from rich.console import Console

    class Answer(Console):
        """Raises where its reader has gone; rich ends the process there."""

        def on_broken_pipe(self) -> None:
            """See `Console`; called while the error is handled."""
            raise

    # A file or pipe gets room for the widest table.
    width = shutil.get_terminal_size((120, 24)).columns
    console = Answer(file=stdout, width=width, soft_wrap=isinstance(text, str), highlight=False)
    for piece in text if isinstance(text, list) else [text]:  # pyright: ignore[reportUnknownVariableType]
        console.print(piece, soft_wrap=isinstance(piece, str))
