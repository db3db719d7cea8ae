"""Builds the kernel filter of the system calls that a program in a sandbox is refused."""

import struct
from collections.abc import Mapping
from typing import Final, TypeAlias

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

_Calls: TypeAlias = Mapping[str, tuple[int, int | None]]
"""The number of each system call in the order of `ARCHITECTURES`; None where there is no such."""

_NEEDLESS: Final[_Calls] = {
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39),
    "pivot_root": (155, 41), "chroot": (161, 51), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104),
    "reboot": (169, 142), "swapon": (167, 224), "quotactl": (179, 60), "acct": (163, 89),
    "syslog": (103, 116), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "open_tree": (428, 428), "move_mount": (429, 429),
    "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "mount_setattr": (442, 442),
}  # fmt: skip
"""Calls that no program needs, and that would expose more of the kernel."""
_REACHING: Final[_Calls] = {
    "socket": (41, 198), "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "setsid": (112, 157),
    "setpgid": (109, 154), "setpriority": (141, 140), "fork": (57, None), "vfork": (58, None),
    "creat": (85, None), "truncate": (76, 45), "rename": (82, None), "renameat": (264, 38),
    "renameat2": (316, 276), "unlink": (87, None), "unlinkat": (263, 35), "rmdir": (84, None),
    "mkdir": (83, None), "mkdirat": (258, 34), "link": (86, None), "linkat": (265, 37),
    "symlink": (88, None), "symlinkat": (266, 36), "mknod": (133, None), "mknodat": (259, 33),
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None),
    "utimes": (235, None), "utimensat": (280, 88), "futimesat": (261, None), "setxattr": (188, 5),
    "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "mq_open": (240, 180),
    "mq_unlink": (241, 181), "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434), "fchmodat2": (452, 452),
    "setxattrat": (463, 463), "removexattrat": (466, 466),
}  # fmt: skip
"""Calls that reach files, the network or other processes."""
_BY_ARGUMENTS: Final[_Calls] = {
    "clone": (56, 220), "clone3": (435, 435), "openat2": (437, 437), "prlimit64": (302, 261),
    "ioctl": (16, 29), "open": (2, None), "openat": (257, 56),
}  # fmt: skip
"""Calls that are refused for some of their arguments."""
_OPENS: Final = {"open": 1, "openat": 2}
"""The index of the argument that holds the flags."""


def filter_for(machine: str, *, alone: bool) -> bytes:
    """Returns the program for `PR_SET_SECCOMP`, by which refused calls fail with EPERM.

    Args:
        machine: the value of `os.uname().machine`, one of `ARCHITECTURES`.
        alone: whether it has no namespaces: then network, signals, processes and writing fail.
    """
    refused = {**_NEEDLESS, **_REACHING} if alone else _NEEDLESS
    refused, numbers = _numbers(refused, at=machine), _numbers(_BY_ARGUMENTS, at=machine)
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
        lines += _returns(refused[name], _EPERM)
    lines += _if_set(numbers["clone"], argument=0, bits=_NEW_NAMESPACES)
    if alone:
        lines += _returns(numbers["openat2"], _ENOSYS) + _returns(numbers["ioctl"], _ENOTTY)
        lines += _if_set(numbers["clone"], argument=0, bits=_THREAD, inverted=True)
        lines += _if_set(numbers["prlimit64"], argument=0, bits=0xFFFFFFFF)
        for name, argument in _OPENS.items():
            if name in numbers:
                lines += _if_set(numbers[name], argument=argument, bits=_WRITING)
    return b"".join([*lines, _line(_RETURN, _ALLOW)])


def _numbers(calls: _Calls, *, at: str) -> dict[str, int]:
    place = [*ARCHITECTURES].index(at)
    return {name: number for name, both in calls.items() if (number := both[place]) is not None}


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
