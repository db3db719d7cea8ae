"""Programs that a sandbox must hold: what each tries, by name."""

from collections.abc import Iterator
from pathlib import Path

_BOMB = "import os\nwhile True:\n    {}\n"
_TRY = """import os, sys, ctypes, socket, signal, time, shutil, subprocess
try:
    {}
except OSError:
    pass
"""
_DEAF = """import os, signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
"""
_DAEMON = """import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {}
        time.sleep(99)
    os._exit(0)
"""
_KEEP = "globals().setdefault('kept', []).append({})"


def programs(*, canary: Path, port: int, parent: int) -> Iterator[tuple[str, str]]:
    """Names and sources; each may try `canary`'s file, a listener at `port`, a process."""
    folder = canary.parent
    tries = {
        "read": [f"print(open({str(canary)!r}).read())"],
        "read passwords": [f"print(open({p!r}).read())" for p in ("/etc/passwd", "/etc/shadow")],
        "write": [f"open({str(canary)!r}, {mode!r}).write('x')" for mode in ("w", "a", "r+", "x")],
        "replace": [f"os.rename('/run/program.py', {str(canary)!r})"],
        "delete": [
            f"os.unlink({str(canary)!r})",
            f"shutil.rmtree({str(folder)!r})",
            "shutil.rmtree('/', ignore_errors=True)",
        ],
        "permissions": [f"os.chmod({str(canary)!r}, 0)", f"os.truncate({str(canary)!r}, 0)"],
        "symbolic link": [
            f"os.symlink({str(canary)!r}, '/tmp/l'); open('/tmp/l', 'w').write('x')",
            "os.symlink('/', '/tmp/l'); os.listdir('/tmp/l'); open('/tmp/l/x', 'w')",
        ],
        "hard link": [f"os.link({str(canary)!r}, '/tmp/l'); open('/tmp/l', 'w').write('x')"],
        "out by dots": [
            f"open('../' * 40 + {str(canary)[1:]!r}, 'w')",
            "os.chdir('..' + '/..' * 9)",
        ],
        "processes seen": [
            "print(os.listdir('/proc'))",
            f"print(open('/proc/{parent}/environ').read())",
            f"open('/proc/{parent}/mem', 'r+b')",
            f"os.listdir('/proc/{parent}/fd')",
        ],
        "signal": [
            f"os.kill({parent}, signal.SIGKILL)",
            "os.kill(-1, signal.SIGKILL)",
            "os.kill(1, signal.SIGKILL)",
            "os.killpg(0, signal.SIGTERM)",
            "os.kill(os.getppid(), signal.SIGSTOP)",
        ],
        "connect": [
            f"socket.create_connection(({host!r}, {port}), 1)"
            for host in ("127.0.0.1", "::1", "localhost", "8.8.8.8")
        ],
        "datagram": [f"socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {port}))"],
        "raw socket": ["socket.socket(17, 3)", "socket.socket(socket.AF_NETLINK, 3)"],
        "abstract socket": ["socket.socket(1, 1).connect('\\0/tmp/.X11-unix/X0')"],
        "trace": [
            f"print(ctypes.CDLL(None).ptrace(16, {parent}, 0, 0))",
            "print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))",
        ],
        "other memory": ["print(ctypes.CDLL(None).syscall(310, 1, 0, 0, 0, 0, 0))"],
        "namespaces": ["print(ctypes.CDLL(None).unshare(0x10000000))"],
        "mount": ["print(ctypes.CDLL(None).mount(b't', b'/tmp', b'tmpfs', 0, 0))"],
        "other root": ["os.chroot('/tmp')", "ctypes.CDLL(None).pivot_root(b'/tmp', b'/tmp')"],
        "rights": ["os.setuid(0)", "os.setgroups([0])", "subprocess.run(['/usr/bin/sudo', 'id'])"],
        "device": ["os.mknod('/tmp/d', 0o60666, 0x800)", "open('/dev/mem', 'rb')"],
        "descriptors": [
            "[os.write(fd, b'{\"passed\": 9}\\n') for fd in range(3, 64)]",
            "[print(os.read(fd, 9)) for fd in range(3, 64)]",
        ],
        "environment": ["assert set(os.environ) <= {'LC_CTYPE'}, os.environ"],
        "host name": ["socket.sethostname('owned')"],
        "own interpreter": ["open(sys.executable, 'ab').write(b'x')", "open(os.__file__, 'a')"],
        "the sandbox's own file": ["open('/run/program.py', 'w')", "os.unlink('/run/program.py')"],
        "time": ["time.clock_settime(time.CLOCK_REALTIME, 0)"],
        "limits raised": [
            "import resource; resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999))",
            "import resource; resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))",
        ],
        "socket of the host": ["socket.socket(1, 1).connect('/run/dbus/system_bus_socket')"],
        "new files": ["os.mkdir('/owned')", "open('/usr/owned', 'w')", "os.mkfifo('/run/owned')"],
        "shared memory": ["ctypes.CDLL(None).shmget(1, 1 << 40, 0o1666)"],
    }
    for name, lines in tries.items():
        for number, line in enumerate(lines):
            yield f"{name} {number}", _TRY.format(line)
    yield from _endless(canary)


def _endless(canary: Path) -> Iterator[tuple[str, str]]:
    """What takes too much of something, or does not end."""
    bombs = {
        "forks": "os.fork()",
        "forks that go": "os.fork() and os._exit(0)",
        "sessions": "os.fork() or os.setsid()",
        "threads": "import threading, time; threading.Thread(target=time.sleep, args=(9,)).start()",
        "memory": _KEEP.format("bytearray(1 << 26)"),
        "shared mappings": _KEEP.format("__import__('mmap').mmap(-1, 1 << 28)"),
        "files": "open(f'/tmp/{len(os.listdir(\"/tmp\"))}', 'w').write('x' * 10**6)",
        "folders": "os.mkdir('/tmp/d'); os.chdir('/tmp/d')",
        "descriptors": _KEEP.format("os.open('/dev/null', 0)"),
        "pipes": _KEEP.format("os.pipe()"),
        "output": "os.write(1, b'x' * 65536)",
        "errors": "os.write(2, b'x' * 65536)",
        "lines": "print(1)",
        "nothing": "pass",
        "sleep": "__import__('time').sleep(99)",
        "input": "os.read(0, 1) or __import__('time').sleep(9)",
    }
    for name, line in bombs.items():
        yield f"endless {name}", _BOMB.format(line)
    yield "deaf sleeper", _DEAF + "time.sleep(99)"
    yield "deaf family", _DEAF + "os.fork(); os.fork()\ntime.sleep(99)"
    yield "daemon", _DAEMON.format("pass")
    yield "daemon that writes", _DAEMON.format(f"open({str(canary)!r}, 'w')")
    yield "daemon without pipes", _DAEMON.format("os.closerange(0, 64)")
    yield "closes its output", "import os, time\nos.closerange(0, 64)\ntime.sleep(99)"
    yield (
        "recursion",
        "import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return f(n + 1) + 1\nf(0)",
    )
    yield "deep syntax", "eval('(' * 10**5)"
    yield "large number", "print(len(str(10 ** 10 ** 9)))"
    yield "large power", "9 ** 9 ** 9 ** 9"
    yield "sparse file", "f = open('/tmp/s', 'wb'); f.seek(1 << 50); f.write(b'x')"
    yield "allocated file", "import os; os.posix_fallocate(os.open('/tmp/s', 66), 0, 1 << 40)"
    yield "locked memory", "import ctypes; ctypes.CDLL(None).mlockall(7); x = bytearray(1 << 28)"
    yield "fault", "import ctypes; ctypes.string_at(0)"
    yield "stops itself", "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)"
    yield "kills itself", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    yield "leaves at once", "import os; os._exit(0)"
    yield "execs", "import os; os.execv('/usr/bin/sleep', ['sleep', '99'])"
    yield (
        "execs itself",
        "import os, sys; os.execv(sys.executable, [sys.executable, '/run/program.py'])",
    )
    yield "catastrophic pattern", "import re; re.match('(a+)+$', 'a' * 99 + 'b')"
    yield "no death signal", "import ctypes, time; ctypes.CDLL(None).prctl(1, 0); time.sleep(99)"
