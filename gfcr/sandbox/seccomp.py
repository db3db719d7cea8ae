"""Builds the kernel filter of the system calls that a program in a sandbox is refused."""

import struct
from typing import Final

_LOAD, _EQUAL, _SET, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
"""Instructions of classic BPF on 32 bits: load a word; jump if equal, if any bit set, if >=."""
_ALLOW: Final = 0x7FFF0000
_ERROR: Final = 0x00050000
_KILL: Final = 0x80000000
_EPERM, _ENOTTY, _ENOSYS = 1, 25, 38
_NEW_NAMESPACES: Final = 0x7E020080
"""The CLONE_NEW* flags of `clone`."""
_THREAD: Final = 0x00010000
_WRITING: Final = 0o1 | 0o2 | 0o100 | 0o1000 | 0o20000000
"""O_WRONLY, O_RDWR, O_CREAT, O_TRUNC and the bit of O_TMPFILE."""

ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_NUMBERS: Final = {
    "x86_64": {
        "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155,
        "chroot": 161, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311,
        "kcmp": 312, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250,
        "add_key": 248, "request_key": 249, "open_by_handle_at": 304, "name_to_handle_at": 303,
        "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246,
        "reboot": 169, "swapon": 167, "quotactl": 179, "acct": 163, "syslog": 103,
        "clone": 56, "socket": 41, "kill": 62, "tkill": 200, "tgkill": 234,
        "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "setsid": 112, "setpgid": 109,
        "setpriority": 141, "fork": 57, "vfork": 58, "open": 2, "openat": 257, "creat": 85,
        "truncate": 76, "rename": 82, "renameat": 264, "renameat2": 316, "unlink": 87,
        "unlinkat": 263, "rmdir": 84, "mkdir": 83, "mkdirat": 258, "link": 86, "linkat": 265,
        "symlink": 88, "symlinkat": 266, "mknod": 133, "mknodat": 259, "chmod": 90,
        "fchmod": 91, "fchmodat": 268, "chown": 92, "fchown": 93, "lchown": 94,
        "fchownat": 260, "utime": 132, "utimes": 235, "utimensat": 280, "futimesat": 261,
        "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197,
        "lremovexattr": 198, "fremovexattr": 199, "mq_open": 240, "mq_unlink": 241,
        "shmget": 29, "semget": 64, "msgget": 68, "prlimit64": 302, "ioctl": 16,
        "sched_setaffinity": 203, "sched_setscheduler": 144, "sched_setparam": 142,
    },
    "aarch64": {
        "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41,
        "chroot": 51, "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
        "kcmp": 272, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "keyctl": 219,
        "add_key": 217, "request_key": 218, "open_by_handle_at": 265, "name_to_handle_at": 264,
        "init_module": 105, "finit_module": 273, "delete_module": 106, "kexec_load": 104,
        "reboot": 142, "swapon": 224, "quotactl": 60, "acct": 89, "syslog": 116,
        "clone": 220, "socket": 198, "kill": 129, "tkill": 130, "tgkill": 131,
        "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240, "setsid": 157, "setpgid": 154,
        "setpriority": 140, "openat": 56, "truncate": 45, "renameat": 38, "renameat2": 276,
        "unlinkat": 35, "mkdirat": 34, "linkat": 37, "symlinkat": 36, "mknodat": 33,
        "fchmod": 52, "fchmodat": 53, "fchown": 55, "fchownat": 54, "utimensat": 88,
        "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15,
        "fremovexattr": 16, "mq_open": 180, "mq_unlink": 181, "shmget": 194, "semget": 190,
        "msgget": 186, "prlimit64": 261, "ioctl": 29, "sched_setaffinity": 122,
        "sched_setscheduler": 119, "sched_setparam": 118,
    },
}  # fmt: skip
_NEWER: Final = {
    **{"pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426},
    **{"io_uring_register": 427, "open_tree": 428, "move_mount": 429, "fsopen": 430},
    **{"fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434, "clone3": 435},
    **{"openat2": 437, "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442},
    **{"fchmodat2": 452, "setxattrat": 463, "removexattrat": 466},
}
"""Calls that have the same number on every architecture."""
_OPENS: Final = {"open": 1, "openat": 2}
"""The index of the argument that holds the flags."""
_OF_PROCESSES: Final = (
    *("unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "ptrace"),
    *("process_vm_readv", "process_vm_writev", "kcmp", "bpf", "perf_event_open", "userfaultfd"),
    *("keyctl", "add_key", "request_key", "open_by_handle_at", "name_to_handle_at"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "reboot", "swapon"),
    *("quotactl", "acct", "syslog", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "pidfd_getfd"),
    *("process_madvise", "mount_setattr"),
)
"""Calls that no program needs, and that would expose more of the kernel."""


def filter_for(machine: str, *, alone: bool) -> bytes:
    """Returns the program for `PR_SET_SECCOMP`, by which refused calls fail with EPERM.

    Args:
        machine: the value of `os.uname().machine`, one of `ARCHITECTURES`.
        alone: whether it has no namespaces: then network, signals, processes and writing fail.
    """
    numbers = {**_NUMBERS[machine], **_NEWER}
    refused = set(_OF_PROCESSES)
    special = {"clone", "openat2", "clone3", "prlimit64", "ioctl", *_OPENS}
    if alone:
        refused = {name for name in numbers if name not in special}
    lines = [
        *(_line(_LOAD, 4), _line(_EQUAL, ARCHITECTURES[machine], yes=1), _line(_RETURN, _KILL)),
        _line(_LOAD, 0),
    ]
    if machine == "x86_64":  # the numbers of another ABI
        lines += [_line(_AT_LEAST, 0x40000000, no=1), _line(_RETURN, _KILL)]
    # A filter cannot look at arguments in memory, as those of clone3 and openat2 are: where these
    # calls are missing, libraries use older ones.
    lines += _returns(numbers["clone3"], _ENOSYS)
    for name in sorted(refused):
        lines += _returns(numbers[name], _EPERM)
    lines += _if_set(numbers["clone"], argument=0, bits=_NEW_NAMESPACES)
    if alone:
        lines += _returns(numbers["openat2"], _ENOSYS) + _returns(numbers["ioctl"], _ENOTTY)
        lines += _if_set(numbers["clone"], argument=0, bits=_THREAD, inverted=True)
        lines += _if_set(numbers["prlimit64"], argument=0, bits=0xFFFFFFFF)
        for name, argument in _OPENS.items():
            if name in numbers:
                lines += _if_set(numbers[name], argument=argument, bits=_WRITING)
    return b"".join([*lines, _line(_RETURN, _ALLOW)])


def _line(code: int, value: int, *, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("=HBBI", code, yes, no, value)


def _returns(number: int, error: int) -> list[bytes]:
    return [_line(_EQUAL, number, no=1), _line(_RETURN, _ERROR | error)]


def _if_set(number: int, *, argument: int, bits: int, inverted: bool = False) -> list[bytes]:
    """Refuses the call where one of the bits is set in the low half of an argument."""
    jump = {"yes": 1} if inverted else {"no": 1}
    return [
        _line(_EQUAL, number, no=4),
        _line(_LOAD, 16 + 8 * argument),
        _line(_SET, bits, **jump),
        _line(_RETURN, _ERROR | _EPERM),
        _line(_LOAD, 0),
    ]
