"""Run a command as in a container of Docker with its default profile: 14 capabilities, no namespaces, no mounts.

`python -m tests.processes.sandbox.docker_like COMMAND...`. Facts: https://docs.docker.com/engine/security/seccomp/
"""

import ctypes
import errno
import os
import platform
import sys

from regrade.processes.sandbox import syscalls

KEPT = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
"""Docker's default capabilities."""
NEW_NAMESPACES = 0x7E020000
REFUSED = {
    "x86_64": (165, 166, 155, 272, 308, 428, 429, 430, 431, 432, 442),
    "aarch64": (40, 39, 41, 97, 268, 428, 429, 430, 431, 432, 442),
}
CLONE = {"x86_64": 56, "aarch64": 220}


def main() -> None:
    machine = platform.machine()
    refuse, allow = syscalls._return_errno(errno.EPERM), syscalls._statement(0x06, 0x7FFF0000)
    program = [syscalls._load(0)]
    for number in REFUSED[machine]:
        program += [syscalls._jump(0x15, number, 0, 1), refuse]
    program += [syscalls._jump(0x15, 435, 0, 1), syscalls._return_errno(errno.ENOSYS)]
    program += [syscalls._jump(0x15, CLONE[machine], 0, 3), syscalls._load(16)]
    program += [syscalls._jump(0x45, NEW_NAMESPACES, 0, 1), refuse, allow]
    code = b"".join(program)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(41):
        if capability not in KEPT:
            libc.prctl(24, capability, 0, 0, 0)
    filters = Program(len(code) // 8, ctypes.addressof(buffer))
    if libc.prctl(22, 2, ctypes.byref(filters), 0, 0) != 0:  # root needs no `no_new_privs`
        libc.prctl(38, 1, 0, 0, 0)
        if libc.prctl(22, 2, ctypes.byref(filters), 0, 0) != 0:
            sys.exit("the filter could not be loaded")
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
