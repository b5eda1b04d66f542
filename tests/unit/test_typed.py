"""Types that several threads meet together for the first time."""

from __future__ import annotations

import subprocess
import sys

TOGETHER = """
import sys, threading
import msgspec
from e2c_dl import typed

sys.setswitchinterval(1e-6)
INNER = "class A{n}(msgspec.Struct):\\n    x: int\\n    y: list[str] | None = None\\n"
OUTER = "class B(msgspec.Struct):\\n" + "".join(f"    a{n}: A{n}\\n" for n in range(10))
value = {f"a{n}": {"x": n, "y": ["z"]} for n in range(10)}
text = msgspec.json.encode(value)
for turn in range(30):
    module = type(sys)(f"types_{turn}")
    sys.modules[module.__name__] = module
    vars(module).update(msgspec=msgspec)
    exec("from __future__ import annotations\\n" + "".join(INNER.format(n=n) for n in range(10)) + OUTER, vars(module))
    begin, found = threading.Barrier(4), []

    def one(number):
        begin.wait()
        found.append(typed.convert(value, module.B) if number % 2 else typed.decode(text, module.B))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(found) == 4 and all(each == found[0] and each.a3.x == 3 for each in found), found
"""


def test_threads_that_meet_a_type_together_get_what_it_is() -> None:
    """Without a lock msgspec 0.22 ends the process by SIGSEGV within the first few turns."""
    done = subprocess.run([sys.executable, "-c", TOGETHER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
