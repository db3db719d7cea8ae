"""Runs an untrusted program in a process of its own, and ensures that the process ends."""

import marshal
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal, Self, final

from gfcr.errors import GfcrError
from gfcr.sandbox import launcher, seccomp
from gfcr.sandbox.spec import Limits, python, spec_of

_SETTING_UP_S: Final = 20.0
_CLEARING_S: Final = 10.0
_ADVICE: Final = (
    "It is made of user namespaces, which this machine or its container may not permit: allow them "
    "(sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns=0), or allow "
    "the fallback, with which programs can read files, but not write, open sockets or start "
    "processes."
)


class SandboxError(GfcrError, RuntimeError):
    """The sandbox itself failed or is not permitted here, so nothing is known of the program."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a program, with its output."""

    ended: Literal["exit", "timeout", "output"]
    """How it ended: by itself or a signal, killed at its time limit, or killed for its output."""
    code: int
    """Its exit status, 128 + N by signal N; meaningless for a program that was killed."""
    output: bytes
    errors: bytes


@final
class Box:
    """A program confined by namespaces: it sees no network, other process or file of ours.

    It has a read-only file system of the interpreter's files and an empty /tmp; no environment, no
    descriptor but the three standard ones; no new privileges; limited resources; and system calls
    that no program needs are refused. It all ends with the box, whatever it forks or ignores.

    Where namespaces are not permitted (containers, `kernel.unprivileged_userns_clone=0`) it raises
    `SandboxError`; `fallback` then allows seccomp and limits alone: the program cannot write a
    file, open a socket, start a process or send a signal, but it can read what the user can.
    """

    def __init__(
        self, source: str, *, limits: Limits | None = None, fallback: bool = False
    ) -> None:
        """Starts a program of Python; its time runs from here.

        Raises:
            SandboxError: the box cannot be made.
        """
        self._limits = limits or Limits()
        spec = spec_of(source, self._limits, namespaces=not (fallback and _why_no_namespaces()))
        self._process, self._result = _start(spec)
        self._over = time.monotonic() + self._limits.seconds + _CLEARING_S
        self._lines = {1: bytearray(), 2: bytearray()}
        self.flooded = False
        self._ended: Mapping[str, Any] | None = None
        self._reader = selectors.DefaultSelector()
        for number, stream in ((1, self._process.stdout), (2, self._process.stderr)):
            assert stream
            os.set_blocking(stream.fileno(), False)
            self._reader.register(stream, selectors.EVENT_READ, number)
        assert self._process.stdin
        os.set_blocking(self._process.stdin.fileno(), False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def finish(self, given: bytes = b"") -> Outcome:
        """Gives the program its input and waits for its end."""
        self._send(given)
        while self._pump():
            pass
        ended = self.close()
        kind = "output" if self.flooded else ended["ended"]
        output, errors = map(bytes, self._lines.values())
        return Outcome(ended=kind, code=ended["code"], output=output, errors=errors)

    def ask(self, line: bytes) -> bytes | None:
        """Sends a line, and returns the next line the program writes; None where it has ended."""
        self._send(line + b"\n", close=False)
        while (at := self._lines[1].find(b"\n")) < 0:
            if not self._pump():
                return None
        found = bytes(self._lines[1][:at])
        del self._lines[1][: at + 1]
        return found

    def close(self) -> Mapping[str, Any]:
        """Kills what still runs and waits until nothing is left of it; returns how it ended."""
        if self._ended is None:
            if self._process.poll() is None and self._reader.get_map():
                self._process.send_signal(signal.SIGTERM)
            self._ended = self._collect()
        return self._ended

    def _collect(self) -> Mapping[str, Any]:
        told = _heard(self._result, seconds=max(1.0, self._over - time.monotonic()))
        self._process.kill()  # it has ended, or hangs: the kernel ends the rest with it
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream
            with suppress(OSError):
                stream.close()
        self._reader.close()
        if not told:
            raise SandboxError("the sandbox: its launcher was killed, so nothing can be said.")
        return marshal.loads(told)

    # ------------------------------------------------------------ pipes

    def _send(self, given: bytes, *, close: bool = True) -> None:
        """Writes as fast as the program reads; ignores that a program has closed its input."""
        stream, left = self._process.stdin, memoryview(given)
        assert stream
        with suppress(BrokenPipeError), selectors.DefaultSelector() as writable:
            writable.register(stream, selectors.EVENT_WRITE)
            while left and self._reader.get_map():
                if writable.select(0.02):
                    left = left[os.write(stream.fileno(), left[:65536]) :]
                self._pump(0.0)
        if close:
            with suppress(OSError):
                stream.close()

    def _pump(self, seconds: float | None = None) -> bool:
        """Reads available output; False when both outputs have ended, or have grown too large."""
        if self.flooded or not self._reader.get_map():
            return False
        wait = max(0.0, self._over - time.monotonic()) if seconds is None else seconds
        found = self._reader.select(wait)
        if not found and seconds is None:
            return False
        for key, _ in found:
            read = os.read(key.fd, 65536)
            if not read:
                self._reader.unregister(key.fileobj)
            held = self._lines[key.data]
            held += read
            self.flooded |= len(held) > self._limits.output_kib << 10
        return not self.flooded and bool(self._reader.get_map())


def why_not(*, fallback: bool = False) -> str | None:
    """Returns why no box can be made here, in words; None where one can."""
    if os.uname().machine not in seccomp.ARCHITECTURES:
        return "the sandbox needs Linux on x86_64 or aarch64."
    return None if fallback else _why_no_namespaces()


@cache
def _why_no_namespaces() -> str | None:
    try:
        Box("").finish()
    except SandboxError as error:
        return str(error)
    return None


def _start(spec: dict[str, Any]) -> "tuple[subprocess.Popen[bytes], int]":
    """Starts the launcher; returns it with the descriptor on which it tells of the end."""
    held = os.memfd_create("spec")
    status, status_end = os.pipe()
    result, result_end = os.pipe()
    ends = (held, status_end, result_end)
    with open(held, "wb", closefd=False) as file:
        file.write(marshal.dumps(spec))
    os.lseek(held, 0, os.SEEK_SET)
    try:
        process = subprocess.Popen(
            [python(), "-I", "-S", "-B", launcher.__file__, *map(str, ends)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=ends,
            env={},
            cwd="/",
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        for fd in (status, result):
            os.close(fd)
        raise SandboxError(f"the sandbox cannot be started: {error}.") from error
    finally:
        for fd in ends:
            os.close(fd)
    _await(process, status=status, result=result)
    return process, result


def _await(process: "subprocess.Popen[bytes]", *, status: int, result: int) -> None:
    """Waits until the program runs."""
    told = _heard(status, seconds=_SETTING_UP_S)
    if told == b"ready":
        return
    process.kill()
    _, errors = process.communicate()
    os.close(result)
    said = told.decode(errors="replace").removeprefix("ready") or errors.decode()[-300:]
    raise SandboxError(f"the sandbox cannot be made: {said.strip() or 'no answer'}. {_ADVICE}")


def _heard(descriptor: int, *, seconds: float) -> bytes:
    """Returns what is written to a pipe until its end, or until nothing comes for so long."""
    told = b""
    with os.fdopen(descriptor, "rb", buffering=0) as file, selectors.DefaultSelector() as ready:
        ready.register(file, selectors.EVENT_READ)
        while ready.select(seconds) and (read := file.read(4096)):
            told += read
    return told
