"""Run untrusted Python programs: namespaces or Landlock, a system call filter, resource limits."""
