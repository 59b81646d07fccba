"""Make the shipped traces again: `python benchmarks/capture_shipped.py FOLDER [NAME ...]`.

Prints the wall time of each. In float64 they come out the same on any machine.
"""

import sys
import time
from pathlib import Path

from kernels_ref.capture.shipped import shipped_traces
from simulator.cli.capture import command


def main() -> None:
    """Capture those that are named, or all, that are not there yet."""
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    for trace in shipped_traces():
        out = folder / trace.name
        if out.exists() or (names and trace.name not in names):
            continue
        start = time.perf_counter()
        command.main([*trace.options, "--out", str(out), "--json"], standalone_mode=False)
        print(f"{trace.name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
