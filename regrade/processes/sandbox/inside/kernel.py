"""Calls into the kernel that Python's library lacks: prctl, seccomp, Landlock."""

import ctypes
import os
import struct
from collections.abc import Sequence

_LIBC = ctypes.CDLL(None, use_errno=True)
_SET_DUMPABLE, _SET_PDEATHSIG, _SET_SECCOMP, _SET_NO_NEW_PRIVS = 4, 1, 22, 38
_SECCOMP_MODE_FILTER = 2
_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_NO_SUID, _NO_DEVICES = 2, 4
_CAPABILITY_VERSION = 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RIGHTS = (13, 14, 15, 15, 16)
"""Number of rights over files in each version of Landlock's interface, from 1; the last holds for later ones."""
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8


def _checked(result: int, doing: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{doing}: {os.strerror(number)}")
    return result


def protect() -> None:
    """Hide this process's memory and descriptors from other processes of the same user; end with the parent."""
    _checked(_LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0), "prctl(PR_SET_DUMPABLE)")
    _checked(_LIBC.prctl(_SET_PDEATHSIG, 9, 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")


def give_up_privileges() -> None:
    """Set `no_new_privs`: executing a program gives no privileges."""
    _checked(_LIBC.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(PR_SET_NO_NEW_PRIVS)")


def filter_system_calls(program: bytes, own: int) -> None:
    """Load a BPF program for this process and all its threads, irrevocably.

    Args:
        program: Instructions of 8 bytes each.
        own: Number that stands for this process's id in the instructions.
    """
    code = program.replace(struct.pack("=I", own), struct.pack("=I", os.getpid()))
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))

    filters = Program(len(code) // 8, ctypes.addressof(buffer))
    done = _LIBC.prctl(_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filters), 0, 0)
    _checked(done, "prctl(PR_SET_SECCOMP)")


def mount_scratch(folders: "Sequence[tuple[str, int, int]]") -> None:
    """Mount an empty file system over folders; then give up all capabilities.

    Needs a mount namespace, and so a user namespace, of its own: bubblewrap can bound the bytes only.

    Args:
        folders: Each with the MiB and the number of files that it may hold.
    """
    user, group = os.getuid(), os.getgid()
    _checked(_LIBC.unshare(_NEW_USER | _NEW_MOUNTS), "unshare")
    for name, content in (
        ("setgroups", "deny"),
        ("uid_map", f"{user} {user} 1"),
        ("gid_map", f"{group} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - nothing else is imported here
            file.write(content)
    flags = _NO_SUID | _NO_DEVICES
    for folder, mib, files in folders:
        options = f"size={mib}m,nr_inodes={files},mode=0700".encode()
        mounted = _LIBC.mount(b"tmpfs", folder.encode(), b"tmpfs", flags, options)
        _checked(mounted, f"mount over {folder}")
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _checked(_LIBC.capset(header, bytes(24)), "capset")


def landlock_version() -> int:
    """Version of Landlock's interface; 0 if the kernel does not have it, or forbids it."""
    return max(0, int(_LIBC.syscall(_CREATE_RULESET, None, 0, 1)))


def restrict_files(readable: Sequence[str], listed: Sequence[str], devices: Sequence[str]) -> None:
    """Forbid this process and its descendants all use of files by path, with exceptions (Landlock), irrevocably.

    Args:
        readable: Files and folders that may be read and executed, with all in them.
        listed: Folders whose names may be listed.
        devices: Files that may be read and written.
    """
    version = landlock_version()
    if not version:
        raise OSError("Landlock is not available")
    handled = (1 << _RIGHTS[min(version, len(_RIGHTS)) - 1]) - 1
    # Also TCP from version 4 on, and from version 6 on abstract Unix sockets and signals to others.
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = ctypes.create_string_buffer(struct.pack("=QQQ", handled, 3, 3)[:size], size)
    ruleset = _checked(
        _LIBC.syscall(_CREATE_RULESET, rules, len(rules), 0), "landlock_create_ruleset"
    )
    for paths, rights in (
        (readable, _EXECUTE | _READ_FILE | _READ_DIR),
        (listed, _READ_DIR),
        (devices, _READ_FILE | _WRITE_FILE),
    ):
        for path in paths:
            _allow(ruleset, path, rights)
    _checked(_LIBC.syscall(_RESTRICT_SELF, ruleset, 0), "landlock_restrict_self")
    os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    if not os.path.isdir(path):  # noqa: PTH112 - nothing else is imported here
        rights &= ~_READ_DIR
    rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, folder), 12)
    _checked(_LIBC.syscall(_ADD_RULE, ruleset, 1, rule, 0), f"landlock_add_rule for '{path}'")
    os.close(folder)
