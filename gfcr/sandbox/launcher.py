"""Runs a confined program; this is a script of its own, which `gfcr.sandbox.box` starts.

There are three processes. The launcher makes the namespaces, keeps the time and reports the end;
the first process inside builds the file system and reaps orphans; its child gives up all privileges
and becomes the program. When the first process inside ends, the kernel kills all others.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import Any, NoReturn
else:  # enum and typing take as long to load as Python to start, once for each program
    import _signal as signal

_NOBODY = 65534
_NAMESPACES = 0x10000000 | 0x00020000 | 0x20000000 | 0x40000000 | 0x08000000 | 0x04000000
"""The flags of the user, mount, process, network, IPC and host name namespaces."""
_REC, _PRIVATE, _BIND, _NOSUID, _NODEV = 0x4000, 1 << 18, 0x1000, 0x2, 0x4
_SET_RDONLY, _SET_NOSUID, _SET_NODEV, _SET_NOEXEC = 1, 2, 4, 8
_MOUNT_SETATTR = 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_PDEATHSIG, _DUMPABLE, _SECCOMP, _SUBREAPER, _NO_NEW_PRIVS = 1, 4, 22, 36, 38
_ROOT = "/proc"
"""The folder where the new root is built: it exists everywhere and holds no library."""
PROGRAM = "/run/program.py"

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Reads the spec from one descriptor; reports on set-up and on the end on two others."""
    spec_fd, status_fd, result_fd = map(int, sys.argv[1:])
    with os.fdopen(spec_fd, "rb") as file:
        spec: dict[str, Any] = marshal.load(file)
    # Of whom opens many files they are high; what is opened here takes lower ones.
    spec["descriptors"] = max(spec_fd, status_fd, result_fd, 1024) + 1
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != spec["parent"]:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD})
    try:
        child = _begin(spec, status_fd)
    except OSError as error:
        _fail(status_fd, error)
    os.close(status_fd)
    for fd in (0, 1, 2):  # the program's alone: the reader sees them end
        os.close(fd)
    ended = _wait(child, seconds=spec["seconds"], group=not spec["namespaces"])
    os.write(result_fd, marshal.dumps(ended))


def _begin(spec: dict[str, Any], status: int) -> int:
    if not spec["namespaces"]:
        _prctl(_SUBREAPER, 1)
        return _fork(lambda: _become(spec, status, two_ids=False), status)
    two_ids = _unshare()
    alive, ours = os.pipe()
    os.set_inheritable(ours, False)

    def first() -> None:
        os.close(ours)
        _first(spec, status, alive=alive, two_ids=two_ids)

    child = _fork(first, status)
    os.close(alive)
    return child


def _wait(child: int, *, seconds: float, group: bool) -> dict[str, Any]:
    """Waits until nothing of the program is left; returns how it ended."""
    limit, why = time.monotonic() + seconds, "timeout"
    found: dict[str, Any] = {}
    while (left := limit - time.monotonic()) > 0 and not (found := _reaped(child, os.WNOHANG)):
        heard = signal.sigtimedwait({signal.SIGTERM, signal.SIGCHLD}, left)
        if heard and heard.si_signo == signal.SIGTERM:
            why = "cancelled"
            break
    if not found:
        (os.killpg if group else os.kill)(child, signal.SIGKILL)
        found = _reaped(child, 0) | {"ended": why}
    while group:  # without namespaces the program may have left some behind
        try:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(-child, 0)
        except (ProcessLookupError, ChildProcessError):
            break
    return found


def _reaped(child: int, flags: int) -> dict[str, Any]:
    pid, status = os.waitpid(child, flags)
    return {"ended": "exit", "code": os.waitstatus_to_exitcode(status)} if pid else {}


def _first(spec: dict[str, Any], status: int, *, alive: int, two_ids: bool) -> None:
    """Runs as the first process inside, which the namespaces last as long as."""
    _prctl(_PDEATHSIG, signal.SIGKILL)
    if select.select([alive], [], [], 0)[0]:  # the launcher is gone already
        os._exit(1)
    os.close(alive)
    _prctl(_DUMPABLE, 0)
    _build(spec)
    program = _fork(lambda: _become(spec, status, two_ids=two_ids), status)
    os.closerange(0, spec["descriptors"])
    while True:  # every orphan within is ours
        pid, ended = os.wait()
        if pid == program:
            code = os.waitstatus_to_exitcode(ended)
            os._exit(code if code >= 0 else 128 - code)


def _build(spec: dict[str, Any]) -> None:
    """Builds a read-only file system of the interpreter's own files, and an empty /tmp."""
    _mount(None, "/", None, _REC | _PRIVATE)
    _mount("tmpfs", _ROOT, "tmpfs", _NOSUID | _NODEV, "size=4m,mode=755")
    for path in spec["read"]:
        _show(path)
    for name in ("null", "zero", "urandom"):
        _bind(f"/dev/{name}", _SET_RDONLY | _SET_NOSUID | _SET_NOEXEC)
    os.mkdir(f"{_ROOT}/tmp")
    size = f"size={spec['file_bytes']},nr_inodes=4096,mode=1777"
    _mount("tmpfs", f"{_ROOT}/tmp", "tmpfs", _NOSUID | _NODEV, size)
    os.mkdir(f"{_ROOT}/run")
    with open(f"{_ROOT}{PROGRAM}", "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(spec["source"])
    os.chmod(f"{_ROOT}{PROGRAM}", 0o644)
    _set_attributes(_ROOT, _SET_RDONLY | _SET_NOSUID | _SET_NODEV, recursive=False)
    os.chdir(_ROOT)
    _called(_libc.syscall(_PIVOT_ROOT[os.uname().machine], b".", b"."), "pivot_root")
    _called(_libc.umount2(b".", 2), "umount of the old root")
    os.chdir("/tmp")


def _show(path: str) -> None:
    if os.path.islink(path):
        os.makedirs(os.path.dirname(_ROOT + path), exist_ok=True)
        os.symlink(os.readlink(path), _ROOT + path)
    elif os.path.exists(path):
        _bind(path, _SET_RDONLY | _SET_NOSUID | _SET_NODEV)


def _bind(path: str, attributes: int) -> None:
    target = _ROOT + path
    os.makedirs(target if os.path.isdir(path) else os.path.dirname(target), exist_ok=True)
    if not os.path.isdir(path):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    _mount(path, target, None, _BIND | _REC)
    _set_attributes(target, attributes, recursive=True)


def _become(spec: dict[str, Any], status: int, *, two_ids: bool) -> NoReturn:
    """Gives up all privileges and becomes the program."""
    os.setpgid(0, 0)
    if two_ids:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    if not spec["namespaces"]:
        _prctl(_PDEATHSIG, signal.SIGKILL)
        os.chdir("/")
    for name, value in spec["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    _prctl(_NO_NEW_PRIVS, 1)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.set_inheritable(status, False)
    os.closerange(3, status)
    os.closerange(status + 1, spec["descriptors"])
    arguments = [spec["python"], "-I", "-S", "-B", "-X", "utf8"]
    last = [PROGRAM] if spec["namespaces"] else ["-c", spec["source"]]
    os.write(status, b"ready")
    _refuse(bytes.fromhex(spec["filter"]))
    os.execve(spec["python"], [*arguments, *last], {})


def _refuse(program: bytes) -> None:
    """Installs the filter of system calls in the kernel."""

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))

    given = Program(len(program) // 8, program)
    _called(_libc.prctl(_SECCOMP, 2, ctypes.byref(given), 0, 0), "seccomp")


# ---------------------------------------------------------------- the kernel


def _unshare() -> bool:
    """Makes the namespaces; returns whether two users are mapped, root and nobody.

    The machine's root is not bound by the limit on processes, so it becomes another user inside.
    """
    uid, gid, me = os.geteuid(), os.getegid(), os.getpid()
    told, tell = os.pipe()
    helper = 0
    if uid == 0:
        helper = os.fork()
        if helper == 0:
            os.close(tell)
            os._exit(_map_two(me) if os.read(told, 1) else 1)
    _called(_libc.unshare(_NAMESPACES), "unshare")
    os.write(tell, b"x")
    os.close(tell)
    os.close(told)
    if helper and os.waitpid(helper, 0)[1] == 0:
        return True
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_NOBODY} {uid} 1"),
        ("gid_map", f"{_NOBODY} {gid} 1"),
    ):
        _write(f"/proc/self/{name}", text)
    return False


def _map_two(pid: int) -> int:
    try:
        for name in ("uid_map", "gid_map"):
            _write(f"/proc/{pid}/{name}", f"0 0 1\n{_NOBODY} {_NOBODY} 1")
    except OSError:
        return 1
    return 0


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _fork(work: Any, status: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException as error:
        _fail(status, error)
    os._exit(1)


def _fail(status: int, error: BaseException) -> NoReturn:
    os.write(status, f"failed: {type(error).__name__}: {error}".encode()[:500])
    os._exit(1)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    given = [text.encode() if text else None for text in (source, target, kind, data)]
    done = _libc.mount(*given[:3], ctypes.c_ulong(flags), given[3])
    _called(done, f"mount of {source or target}")


def _set_attributes(path: str, attributes: int, *, recursive: bool) -> None:
    given = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
    at = 0x8000 if recursive else 0
    done = _libc.syscall(_MOUNT_SETATTR, -100, path.encode(), at, ctypes.byref(given), 32)
    _called(done, f"mount_setattr of {path}")


def _prctl(option: int, value: int) -> None:
    _called(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), f"prctl {option}")


def _called(answer: int, what: str) -> None:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
