"""Programs that want to pass tests of `f` without computing it: f(2) == 4, f(3) == 9."""

TESTS = "expected = {2: 4, 3: 9}\nassert f(2) == expected[2]\nassert f(3) == 9\n"
LIE = '{"failed": "", "progress": [2, 2]}'
FORGED = {
    "equal to all": "class A:\n    def __eq__(s, o): return True\ndef f(x): return A()",
    "equal integer": "class A(int):\n    def __eq__(s, o): return True\ndef f(x): return A()",
    "leaves": "import os\nos._exit(0)",
    "leaves late": "import os\ndef f(x): os._exit(0)",
    "system exit": "import sys\ndef f(x): sys.exit(0)",
    "no assertion": (
        "import builtins\nclass E(Exception): pass\nbuiltins.AssertionError = E\ndef f(x): pass"
    ),
    "says it passed": f"print({LIE!r})\ndef f(x): print({LIE!r})",
    "writes where answers go": (
        "import os\ndef f(x):\n"
        f"    for fd in range(3, 64):\n        try: os.write(fd, {LIE.encode()!r} + b'\\n')\n"
        "        except OSError: pass\n"
    ),
    "reads the tests": (
        "import glob, re\ndef f(x):\n    for p in glob.glob('/**', recursive=True):\n"
        "        try: t = open(p).read()\n        except Exception: continue\n"
        "        if 'expected = {2' in t: return int(re.search(f'{x}: (.)', t)[1])\n"
    ),
    "looks up the stack": (
        "import sys\ndef f(x):\n    frame = sys._getframe()\n    while frame:\n"
        "        if 'expected' in frame.f_globals: return frame.f_globals['expected'][x]\n"
        "        frame = frame.f_back\n"
    ),
    "looks through memory": (
        "import gc\ndef f(x):\n    for o in gc.get_objects():\n"
        "        if isinstance(o, dict) and 'expected' in o: return o['expected'][x]\n"
    ),
    "patches what serves it": (
        "import sys\nm = sys.modules['__main__']\nm.pack = lambda v, **k: ['held', 0]\n"
        "def f(x): return 1"
    ),
    "answers with a stand-in": "class A:\n    __eq__ = lambda s, o: True\ndef f(x): return [A()]",
    "changes what it is given": "def f(x):\n    return x",
    "raises": "def f(x): raise AssertionError",
    "never answers": "def f(x):\n    while True: pass",
    "closes all": "import os\ndef f(x): os.closerange(0, 64)",
    "no program": "I cannot do that.",
    "nothing": "",
    "a number no one can write": "def f(x): return 10 ** 10 ** 7",
}
