"""System call filter (seccomp) of an untrusted program, as a BPF program.

The filter forbids calls that start processes, open sockets, reach other processes, mount file systems, or use parts of
the kernel that programs do not need. It is loaded inside the sandbox by the process that becomes the program; `SELF`
stands for its process id until then. Numbers: https://gpages.juszkiewicz.com.pl/syscalls-table/syscalls.html
"""

import errno
import platform
import struct
from collections.abc import Sequence

from regrade.settings.errors import SandboxError

SELF = 0x5E1F5E1F
"""Stands for the process id of the program."""

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Column of `_FORBIDDEN`, and the number by which the kernel knows the architecture."""
_NEWEST = 462
"""Highest number of a known system call; later ones are refused as if the kernel did not have them."""
_CLONE_THREAD = 0x00010000

_FORBIDDEN: Sequence[tuple[int | None, int | None]] = (
    # sockets; connected pairs are allowed, asyncio needs one
    (41, 198), (42, 203), (49, 200), (50, 201), (43, 202), (288, 242),
    # fork, vfork, execve, execveat
    (57, None), (58, None), (59, 221), (322, 281),
    # ptrace, process_vm_*, kcmp, pidfd_*, process_madvise, process_mrelease
    (101, 117), (310, 270), (311, 271), (312, 272), (434, 434), (424, 424), (438, 438), (440, 440), (448, 448),
    # priorities and memory of other processes
    (141, 140), (203, 122), (142, 118), (144, 119), (314, 274), (251, 30), (256, 238), (279, 239),
    # tkill and queued signals; sessions and process groups
    (200, 130), (129, 138), (297, 240), (112, 157), (109, 154),
    # unshare, setns, mount, umount2, pivot_root, chroot, and the newer calls for mounts
    (272, 97), (308, 268), (165, 40), (166, 39), (155, 41), (161, 51), (428, 428), (429, 429), (430, 430),
    (431, 431), (432, 432), (433, 433), (442, 442),
    # swap, reboot, names, modules, kexec, accounting, quotas, clocks, kernel log, ports
    (167, 224), (168, 225), (169, 142), (170, 161), (171, 162), (175, 105), (176, 106), (313, 273), (246, 104),
    (320, 294), (163, 89), (179, 60), (443, 443), (164, 170), (227, 112), (159, 171), (305, 266), (103, 116),
    (172, None), (173, None), (153, 58),
    # bpf, perf_event_open, userfaultfd, keys, io_uring, memfd_create, memfd_secret, fanotify_init
    (321, 280), (298, 241), (323, 282), (250, 219), (248, 217), (249, 218), (425, 425), (426, 426), (427, 427),
    (319, 279), (447, 447), (300, 262),
    # files by handle; System V and POSIX message queues, semaphores and shared memory
    (303, 264), (304, 265), (29, 194), (30, 196), (64, 190), (68, 186), (240, 180),
    # personality; owners, modes, attributes and times of files; truncate; device files
    (135, 92), (90, None), (91, 52), (268, 53), (452, 452), (92, None), (93, 55), (94, None), (260, 54),
    (188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16), (132, None), (235, None), (280, 88),
    (261, None), (76, 45), (133, None), (259, 33),
)  # fmt: skip
_OWN_PROCESS = ((62, 129), (234, 131), (302, 261))
"""kill, tgkill and prlimit64: allowed for the program itself."""
_CLONE, _CLONE3 = (56, 220), 435
_OWNERS = {(72, 25): (8, 10, 15), (16, 29): (0x8901, 0x8902)}
"""fcntl and ioctl, and their operations by which the kernel signals another process when a pipe is ready: Landlock forbids
that only since Linux 6.12."""
_PRCTL, _PDEATHSIG = (157, 167), 1
"""prctl, and its operation by which the program would outlive its parent."""


def seccomp_filter(machine: str | None = None) -> bytes:
    """Return the BPF program, with `SELF` in place of the program's process id.

    Args:
        machine: Architecture as `platform.machine()` names it. None: this machine's.

    Raises:
        SandboxError: If the architecture is not supported.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise SandboxError(
            f"Programs cannot be run on a machine of type '{machine}': the system call filter knows "
            f"{' and '.join(_ARCHITECTURES)}."
        )
    column, audit = _ARCHITECTURES[machine]
    refuse, allow = _return_errno(errno.EPERM), _statement(0x06, 0x7FFF0000)
    program = [_load(4), _jump(0x15, audit, 1, 0), _statement(0x06, 0x80000000), _load(0)]
    for numbers in _FORBIDDEN:
        if (number := numbers[column]) is not None:
            program += [_jump(0x15, number, 0, 1), refuse]
    program += [_jump(0x15, _CLONE3, 0, 1), _return_errno(errno.ENOSYS)]
    program += [_jump(0x25, _NEWEST, 0, 1), _return_errno(errno.ENOSYS)]
    # clone: only threads
    program += [_jump(0x15, _CLONE[column], 0, 4), _load(16), _jump(0x45, _CLONE_THREAD, 1, 0)]
    program += [refuse, allow]
    program += [_jump(0x15, _PRCTL[column], 0, 4), _load(16), _jump(0x15, _PDEATHSIG, 0, 1)]
    program += [refuse, allow]
    for numbers, operations in _OWNERS.items():
        last = len(operations) - 1
        checks = [
            _jump(0x15, operation, last - n, n == last) for n, operation in enumerate(operations)
        ]
        program += [_jump(0x15, numbers[column], 0, len(checks) + 3), _load(24)]
        program += [*checks, refuse, allow]
    for numbers in _OWN_PROCESS:
        checks = [_load(16), _jump(0x15, SELF, 1, 0)]
        if numbers == _OWN_PROCESS[-1]:
            checks = [_load(16), _jump(0x15, 0, 2, 0), _jump(0x15, SELF, 1, 0)]
        program += [_jump(0x15, numbers[column], 0, len(checks) + 2), *checks, refuse, allow]
    program.append(allow)
    return b"".join(program)


def _statement(code: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, 0, 0, value)


def _jump(code: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _load(offset: int) -> bytes:
    """Load 32 bits of `seccomp_data`: 0 is the number, 4 the architecture, 16 and 24 the low halves of the first two arguments."""
    return _statement(0x20, offset)


def _return_errno(number: int) -> bytes:
    return _statement(0x06, 0x00050000 | number)
