"""Hostile programs. Each prints `escaped` as its last act if it could do what it tries; a sandbox that holds prevents it."""

READS = {
    "a file of the user": "print('escaped' if open({secret!r}).read() else '')",
    "a file through a link": "import os; os.symlink({secret!r}, 'link'); open('link').read(); print('escaped')",
    "a file through a descriptor of the process above": (
        "import os\nfor n in range(64):\n    try: os.listdir(f'/proc/{{os.getppid()}}/fd'); print('escaped'); break\n"
        "    except OSError: pass"
    ),
    "the home": "import os; print('escaped' if os.listdir({home!r}) else '')",
    "the working folder": "import os; print('escaped' if os.listdir({folder!r}) else '')",
    "the list of users": "open('/etc/passwd').read(); print('escaped')",
    "the passwords": "open('/etc/shadow').read(); print('escaped')",
    "the environment": "import os; print('escaped' if 'HF_TOKEN' in os.environ else '')",
    "the environment of the processes above": (
        "import os\nfor p in (1, os.getppid()):\n    try:\n        if open(f'/proc/{{p}}/environ').read().count('TOKEN'): print('escaped')\n"
        "    except OSError: pass"
    ),
    "the memory of the process above": "import os; open(f'/proc/{{os.getppid()}}/mem', 'rb').read(1); print('escaped')",
    "another process": "open('/proc/{victim}/environ').read(); print('escaped')",
    "the memory of process 1": "open('/proc/1/mem', 'rb'); print('escaped')",
    "the kernel's log": "import ctypes; b = ctypes.create_string_buffer(99); assert ctypes.CDLL(None).klogctl(3, b, 99) > 0; print('escaped')",
    "the disks": "open('/dev/sda', 'rb').read(1); print('escaped')",
}
WRITES = {
    "to a file of the user": "open({secret!r}, 'r+').write('x'); print('escaped')",
    "to /usr": "open('/usr/x', 'w'); print('escaped')",
    "to /": "open('/x', 'w'); print('escaped')",
    "to its Python": "import os; open(os.__file__, 'a'); print('escaped')",
    "to the memory of process 1": "open('/proc/1/mem', 'r+b'); print('escaped')",
    "to the kernel's settings": "open('/proc/sys/kernel/core_pattern', 'w').write('x'); print('escaped')",
    "by truncating": "import os; os.truncate({secret!r}, 0); print('escaped')",
    "by removing": "import os; os.remove({secret!r}); print('escaped')",
    "by renaming": "import os; os.rename({secret!r}, {secret!r} + '2'); print('escaped')",
    "by a mode": "import os; os.chmod({secret!r}, 0o000); print('escaped')",
    "by a time": "import os; os.utime({secret!r}, (0, 0)); print('escaped')",
}
CONNECTS = {
    "to this machine": "import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('escaped')",
    "by a datagram": "import socket; socket.socket(2, 2).sendto(b'x', ('127.0.0.1', {port})); print('escaped')",
    "to a socket in a file": "import socket; s = socket.socket(1); s.connect({unix!r}); print('escaped')",
    "to an abstract socket": "import socket; s = socket.socket(1); s.connect('\\0' + {abstract!r}); print('escaped')",
    "by netlink": "import socket; socket.socket(16, 3, 0); print('escaped')",
    "by a raw system call": "import ctypes; assert ctypes.CDLL(None).syscall({socket_number}, 2, 1, 0) >= 0; print('escaped')",
    "by asking for a name": "import socket; socket.getaddrinfo('localhost', 80); socket.socket(); print('escaped')",
    "by io_uring": "import ctypes; p = ctypes.create_string_buffer(120); assert ctypes.CDLL(None).syscall(425, 4, p) >= 0; print('escaped')",
}
OUTLIVES = {
    "as a child": "import os, time\nif os.fork() == 0:\n    os.setsid(); time.sleep(60)\nprint('escaped')",
    "as a vfork": "import ctypes; assert ctypes.CDLL(None).vfork() > 0; print('escaped')",
    "as a process of the library": "import subprocess; subprocess.Popen(['/bin/sleep', '60']); print('escaped')",
    "as another program": "import os; os.execv('/bin/echo', ['echo', 'escaped'])",
    "as a fork bomb": "import os\nn = 0\ntry:\n    while n < 50:\n        if os.fork(): n += 1\nexcept OSError: pass\nif n: print('escaped')",
    "by clone3": "import ctypes; a = ctypes.create_string_buffer(88); assert ctypes.CDLL(None).syscall(435, a, 88) > 0; print('escaped')",
    "by forgetting its parent": "import ctypes; assert ctypes.CDLL(None).prctl(1, 0) == 0; print('escaped')",
    "by a session of its own": "import os; os.setsid(); print('escaped')",
    "by never ending": "while True: pass",
    "by not hearing the limit": "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
    "by sleeping": "import time; time.sleep(100); print('escaped')",
    "in a thread": "import threading\ndef f():\n    while True: pass\nthreading.Thread(target=f).start()",
    "with its output closed": "import os\nos.close(1)\nwhile True: pass",
}
FILLS = {
    "memory at once": "x = bytearray(300 << 20); print('escaped')",
    "memory in steps": "x = []\nwhile len(x) < 300: x.append(bytearray(1 << 20))\nprint('escaped')",
    "memory of the kernel": "import os; f = [os.memfd_create('x') for _ in range(32)]; print('escaped')",
    "shared memory": "import mmap; x = mmap.mmap(-1, 300 << 20); x[:] = bytes(len(x)); print('escaped')",
    "the disk with a file": "f = open('/tmp/x', 'wb')\nfor _ in range(99): f.write(bytes(1 << 20))\nf.flush(); print('escaped')",
    "the disk with many files": "for i in range(99):\n    with open(f'/tmp/{{i}}', 'wb') as f: f.write(bytes(1 << 20))\nprint('escaped')",
    "the disk with empty files": "for n in range(5000): open(f'/tmp/{{n}}', 'w').close()\nprint('escaped')",
    "/dev/shm with empty files": "for n in range(5000): open(f'/dev/shm/{{n}}', 'w').close()\nprint('escaped')",
    "/dev/shm": "f = open('/dev/shm/x', 'wb')\nfor _ in range(9): f.write(bytes(1 << 20))\nf.flush(); print('escaped')",
    "the output": "while True: print('x' * 10000)",
    "the processes with threads": (
        "import threading, time\nn = 0\nthreading.stack_size(32768)\ntry:\n    while n < 1000:\n"
        "        threading.Thread(target=time.sleep, args=(0.3,), daemon=True).start(); n += 1\nexcept RuntimeError: pass\n"
        "print('escaped' if n > 400 else '')"
    ),
    "the descriptors": "f = [open('/dev/null') for _ in range(500)]; print('escaped')",
    "the parser": "eval('(' * 100000); print('escaped')",
}
BREAKS_OUT = {
    "by a user namespace": "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0; print('escaped')",
    "by a mount": "import ctypes; assert ctypes.CDLL(None).mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None) == 0; print('escaped')",
    "by a root of its own": "import os; os.chroot('/tmp'); print('escaped')",
    "by becoming root": "import os; os.setuid(0); print('escaped')",
    "by a debugger": "import ctypes, os; assert ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0) == 0; print('escaped')",
    "by killing all": "import os; os.kill(-1, 9); print('escaped')",
    "by killing the process above": "import os; os.kill(os.getppid(), 9); print('escaped')",
    "by killing a process of the same user": "import os; os.kill({victim}, 9); print('escaped')",
    "by a signal that the kernel sends": (
        "import fcntl, os, time\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, {victim})\nfcntl.fcntl(r, 10, 9)\n"
        "fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)\nos.write(w, b'x'); time.sleep(0.2); print('escaped')"
    ),
    "by an owner of a pipe": "import fcntl, os, struct; fcntl.ioctl(0, 0x8901, struct.pack('i', os.getppid())); print('escaped')",
    "by a higher limit": "import resource; resource.setrlimit(resource.RLIMIT_AS, (-1, -1)); print('escaped')",
    "by limits of the process above": "import os, resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (0, 0)); print('escaped')",
    "by BPF": "import ctypes; assert ctypes.CDLL(None).syscall({bpf_number}, 0, None, 0) == 0; print('escaped')",
    "by 32-bit numbers": "import ctypes; assert ctypes.CDLL(None).syscall(0x40000000 + 41, 2, 1, 0) >= 0; print('escaped')",
    "by writing to the pipes of the runner": (
        "import os\nfor n in range(2, 256):\n    try: os.write(n, b'00000010' + b'x' * 16)\n    except OSError: pass\n"
        "    else:\n        if n > 2: print('escaped')"
    ),
}
PROGRAMS = {
    f"{kind}: {name}": source
    for kind, programs in (
        ("reads", READS),
        ("writes", WRITES),
        ("connects", CONNECTS),
        ("outlives", OUTLIVES),
        ("fills", FILLS),
        ("breaks out", BREAKS_OUT),
    )
    for name, source in programs.items()
}

FRAME = "import os, time\ndef frame(content): os.write(4, b'%08x' % len(content) + content)\n"
"""Writes an answer past the sandbox's own code."""

CHEATS = {
    "exit before the tests": "import sys\ndef f(x): return x\nsys.exit(0)",
    "exit at once": "import os\nos._exit(0)",
    "exit in the call": "import os\ndef f(x): os._exit(0)",
    "system exit in the call": "def f(x): raise SystemExit(0)",
    "a verdict written ahead": "import os\nos.write(4, b'0000001a' + b'{\"verdict\": \"passed\"}      ')\ndef f(x): return x",
    "no function": "x = 1",
    "an endless string": "class S(str): pass\ndef f(x): return S('x' * (1 << 28))",
    "a result that contains itself": "def f(x):\n    a = []\n    a.append(a)\n    return a",
    "a result nested deeply": "def f(x):\n    a = []\n    for _ in range(100000): a = [a]\n    return a",
    "a frame in another encoding": FRAME
    + "def f(x): frame('{\"value\": 123456}'.encode('utf-16')); time.sleep(9)",
    "a frame that is no value": FRAME
    + 'def f(x): frame(b\'{"value": {"complex": []}}\'); time.sleep(9)',
    "a frame of unknown form": FRAME
    + 'def f(x): frame(b\'{"value": 123456, "raised": "E"}\'); time.sleep(9)',
    "a frame nested deeply": FRAME
    + "def f(x): frame(b'{\"value\":' + b'[' * 260 + b']' * 260 + b'}'); time.sleep(9)",
    "a frame of endless depth": FRAME + "def f(x): frame(b'[' * 1000000); time.sleep(9)",
    "a frame that grows": FRAME
    + 'def f(x): frame(b\'{"value":{"tuple":{"range":[0,1000000000000000,1]}}}\'); time.sleep(9)',
    "half a frame": "import os\ndef f(x): os.write(4, b'00000fff{\"value\": 1'); os._exit(0)",
    "a generator": "def f(x): return (n for n in [123456])",
    "a set whose elements collide": "def f(x): return {n * ((1 << 61) - 1) for n in range(1, 30000)}",
    "an assertion that is true": "import builtins\nbuiltins.AssertionError = None\ndef f(x): return 0",
    "a comparison of its own": "class E:\n    def __eq__(self, other): return True\ndef f(x): return E()",
    "an integer that equals everything": "class E(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\ndef f(x): return E(7)",
    "the frames above": (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n        for v in list(frame.f_locals.values()):\n"
        "            for i in v if isinstance(v, (list, tuple)) else [v]:\n"
        "                if isinstance(i, int) and i // 1000 == 61 * 2 + 1: return i\n        frame = frame.f_back"
    ),
    "the objects in memory": (
        "import gc\ndef f(x):\n    for o in gc.get_objects():\n        if isinstance(o, (list, tuple)):\n            for i in o:\n"
        "                if type(i) is int and i // 1000 == 61 * 2 + 1: return i"
    ),
}
"""Programs whose `f(1)` is not 123456."""
