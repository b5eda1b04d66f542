"""A worker that does nothing but serve an agent's test: starts the agent, and writes down every 2 ms that it is there.

``python agents_worker.py CONFIG TICKS``: CONFIG is an AgentConfig's line without a pid. Lines from standard input are
handed to the agent; ``began`` and ``iteration N`` get the time. Answers of the agent, and its pid, go to standard
output.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path


def main() -> None:
    config = {**json.loads(sys.argv[1]), "worker_pid": os.getpid()}
    command = [sys.executable, "-m", "e2c_dl.emulation.agent.main"]
    agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    agent.stdin.write(json.dumps(config) + "\n")
    agent.stdin.flush()
    print(agent.stdout.readline().strip(), flush=True)
    print(agent.pid, flush=True)
    threading.Thread(target=_tick, args=(Path(sys.argv[2]),), daemon=True).start()
    for line in sys.stdin:
        agent.stdin.write(f"{line.strip()} {time.monotonic_ns()}\n")
        agent.stdin.flush()
    agent.stdin.close()
    sys.exit(agent.wait())


def _tick(path: Path) -> None:
    with path.open("w", buffering=1) as file:
        while True:
            file.write(f"{time.monotonic_ns()}\n")
            time.sleep(0.002)  # is what stands still when this process is stopped


if __name__ == "__main__":
    main()
