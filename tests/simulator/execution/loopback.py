"""A Dask scheduler and workers as processes of their own, on the loopback interface."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
BEGINS_S = 60.0
"""Most time for a process to begin, on a busy machine."""


@dataclass
class Loopback:
    """A scheduler and its workers."""

    address: str
    folder: Path
    scheduler: "subprocess.Popen[bytes]"
    stack: ExitStack
    workers: list["subprocess.Popen[bytes]"] = field(default_factory=list)

    def start_worker(self, *options: str) -> None:
        """One more worker of one thread; it begins while the caller goes on."""
        here = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(self.folder)]
        here += ["--death-timeout", "60"]  # without its scheduler
        one = ["--no-nanny"] if "--nanny" not in options else []
        command = ["worker", self.address, "--host", "127.0.0.1", *here, *one, *options]
        self.workers.append(self.stack.enter_context(process(command, self.folder)))


@contextmanager
def process(command: Sequence[str], folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """`dask COMMAND` while inside."""
    whole = [sys.executable, "-W", "ignore", "-m", "dask", *command]
    quiet = {"DASK_LOGGING__DISTRIBUTED": "error", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with (folder / "dask.log").open("ab") as log:
        started = subprocess.Popen(whole, stdout=log, stderr=log, env=os.environ | quiet)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextmanager
def loopback(folder: Path, workers: int) -> Iterator[Loopback]:
    """A scheduler with so many *workers*, which begin while the caller goes on."""
    file = folder / "scheduler.json"
    there = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--no-jupyter"]
    with ExitStack() as stack:
        command = ["scheduler", "--scheduler-file", str(file), *there]
        scheduler = stack.enter_context(process(command, folder))
        deadline = time.monotonic() + BEGINS_S
        while not (file.exists() and file.stat().st_size):
            assert scheduler.poll() is None, (folder / "dask.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        found = Loopback(json.loads(file.read_text())["address"], folder, scheduler, stack)
        for _ in range(workers):
            found.start_worker()
        yield found
