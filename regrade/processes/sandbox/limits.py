"""Resource limits of an untrusted program."""

from dataclasses import dataclass

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of one program; scores depend on them."""

    test_cpu_seconds: int = 6
    """CPU time of one case (a call, or a run with one input), and of tests that share a process with the program. The
    kernel counts whole seconds."""
    call_cpu_seconds: int = 2
    """CPU time of one call in tests, of which a question has up to thousands."""
    program_cpu_seconds: int = 60
    """CPU time of all calls together that a group of tests makes; cases are limited one by one."""
    wall_factor: float = 5.0
    """Elapsed time allowed per second of CPU time; ends programs that sleep."""
    memory_mib: int = 2048
    """Address space of the program."""
    file_mib: int = 16
    """Largest file; 0 if no file may be written."""
    scratch_mib: int = 64
    """All files together."""
    scratch_files: int = 4096
    """Files and folders that exist at the same time."""
    output_mib: int = 16
    """Output of one test; a longer one fails the test."""
    threads: int = 64
    """Threads of a program. Other processes cannot be started at all."""

    @property
    def output_bytes(self) -> int:
        """Largest output of a test, in bytes."""
        return self.output_mib * _MIB

    @property
    def all_bytes(self) -> int:
        """Most memory of a program and its tests together: their processes, the files, and an output on its way."""
        return (2 * self.memory_mib + self.scratch_mib + 2 * self.output_mib) * _MIB

    @property
    def description(self) -> str:
        """The limits on which a score depends, for the identity of a scoring."""
        return (
            f"{self.test_cpu_seconds} s CPU per case, {self.call_cpu_seconds} s per call in tests, "
            f"{self.program_cpu_seconds} s for the calls of a program's tests, "
            f"{self.memory_mib} MiB memory, {self.output_mib} MiB output, {self.threads} threads"
        )
