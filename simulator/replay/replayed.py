"""Replay of any captured trace by its name, and its forwards as a table."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from simulator.documents import DocumentError, Mistake
from simulator.library import TRACES
from simulator.replay.block_record import COUNTS
from simulator.replay.block_summary import ReplayedBlocks, replay_blocks
from simulator.replay.iteration_choice import captured_trace
from simulator.replay.iteration_replay import IterationReplay, replay_iterations
from simulator.replay.totals import EXACT
from simulator.schedule import Schedule
from traces.block_tables import KINDS
from traces.block_trace import BlockTrace
from traces.captured import CapturedManifest
from traces.iteration_trace import IterationTrace

SUFFIX: Final = ".parquet"
LOADS: Final = (
    "query_tokens",
    "prefix_tokens",
    "logit_rows",
    "adapter_tokens",
    "feature_tokens",
    "moved_tokens",
)
"""Columns of a pass's loads."""


def replayed(name: str, settings: Mapping[str, object]) -> ReplayedBlocks | IterationReplay:
    """The trace in the folder *name*, or the shipped one called so, under *settings*.

    Raises DocumentError for a trace that does not add up and for settings it cannot answer.
    """
    beside = _is_folder(name) and name not in TRACES.names()
    place = str(Path.cwd() / name) if beside else name
    manifest = TRACES.get(place)
    if not isinstance(manifest, CapturedManifest):
        captured = "only captured traces are replayed; it has means of what papers print"
        raise DocumentError(name, [Mistake("", captured)])
    trace = captured_trace(place, manifest)
    if isinstance(trace, BlockTrace):
        return replay_blocks(trace, settings)
    if isinstance(trace, IterationTrace):
        return replay_iterations(trace, settings)
    raise DocumentError(name, [Mistake("records", f"no replay of {manifest.records}")])


def _is_folder(name: str) -> bool:
    """Whether a folder lies at *name*; no name that is too long for one does."""
    try:
        return Path(name).is_dir()
    except OSError:
        return False


def check_exact(answer: ReplayedBlocks | IterationReplay) -> None:
    """Raise DocumentError unless every forward is the captured one."""
    if answer.replay != EXACT:
        what = "; ".join(answer.warnings) or "settings are not the captured ones"
        what = what.removeprefix("counterfactual ")
        raise DocumentError("--exact", [Mistake("", f"that would be counterfactual: {what}")])


def check_new_table(path: Path) -> None:
    """Raise DocumentError for a file that exists, or has another suffix."""
    if path.suffix != SUFFIX:
        raise DocumentError(str(path), [Mistake("", f"is a table; name it FILE{SUFFIX}")])
    try:
        what = "exists already; choose a new file" if path.exists() else ""
        what = what or ("" if path.parent.is_dir() else "is in a folder that does not exist")
    except OSError as error:
        what = f"cannot be written: {error.strerror}"
    if what:
        raise DocumentError(str(path), [Mistake("", what)])


def write_steps(answer: ReplayedBlocks | IterationReplay, path: Path) -> None:
    """Every forward of every request, in their order; nothing is left where it cannot be written.

    Raises DocumentError.
    """
    table = _of_blocks(answer) if isinstance(answer, ReplayedBlocks) else _of_schedules(answer)
    draft = path.with_name(f".{path.name}.draft")
    try:
        pq.write_table(pa.Table.from_pandas(table, preserve_index=False), draft)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        what = f"cannot be written: {error.strerror or error}"
        raise DocumentError(str(path), [Mistake("", what)]) from error


def _of_blocks(answer: ReplayedBlocks) -> pd.DataFrame:
    tables = answer.tables
    count = np.diff(tables.first_step)
    columns: dict[str, Any] = {
        "request": np.repeat(np.arange(len(count)), count),
        "step": np.arange(count.sum()) - np.repeat(tables.first_step[:-1], count),
        "kind": np.array(KINDS)[tables.steps["kind"]],
    }
    names = (*COUNTS, "revealed", "edited", "committed_tokens")
    return pd.DataFrame(columns | {name: tables.steps[name] for name in names})


def _of_schedules(answer: IterationReplay) -> pd.DataFrame:
    frames = [
        _of_schedule(schedule).assign(request=row) for row, schedule in enumerate(answer.schedules)
    ]
    return pd.concat(frames, ignore_index=True)[["request", "iteration", "pass", *LOADS, "emitted"]]


def _of_schedule(schedule: Schedule) -> pd.DataFrame:
    """A row for every pass of every iteration; a pass that is launched repeatedly has one."""
    steps = np.arange(schedule.n_steps)
    passes = [
        pd.DataFrame(dict(zip(LOADS, each.loads, strict=True))).assign(
            iteration=steps,
            **{"pass": each.name, "emitted": 0 if place else schedule.emitted_tokens},
        )
        for place, each in enumerate(reversed(schedule.passes))
    ]
    ordered = pd.concat(reversed(passes), ignore_index=True)
    return ordered.sort_values("iteration", kind="stable", ignore_index=True)
