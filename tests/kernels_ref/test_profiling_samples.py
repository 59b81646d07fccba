"""Raw samples: written whole, read back as they were, and never mixed with another machine's."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from kernels_ref.profiling.point import Point
from kernels_ref.profiling.samples import MOST_KEPT, Samples, SamplesError, environment_of

HERE = {"device": "a chip", "torch": "2.0", "clocks": "1000 MHz"}
GEMM = Point("gemm", "bf16", {"m": 1, "n": 2, "k": 3}, level=0, flop=12.0, bytes=12.0)
STREAM = Point("elementwise", "fp32", {"bytes_moved": 64.0}, 0, 0.0, 64.0, "copy", (1, 8))


def saved(path: Path, **environment: str) -> Samples:
    """A file at *path* with a point that was measured and one that was not."""
    samples = Samples(path, HERE | environment)
    samples.add(GEMM, np.array([3e-6, 1e-6, 2e-6, 4e-6, 5e-6]))
    samples.add(STREAM, np.empty(0), "skipped: needs 2 GB, allowed 1 GB")
    samples.save()
    return samples


def test_a_row_by_hand(tmp_path: Path) -> None:
    """The median and (4 - 2) / 3 of samples 1 to 5, and the sizes under their names."""
    row = saved(tmp_path / "a.parquet").rows[GEMM.key]
    assert (row["kernel"], row["precision"], row["status"]) == ("gemm", "bf16", "measured")
    assert (row["m"], row["n"], row["k"]) == (1.0, 2.0, 3.0)
    assert row["seconds"] == pytest.approx(3e-6)
    assert row["spread"] == pytest.approx(2 / 3)
    assert row["samples_s"] == pytest.approx([3e-6, 1e-6, 2e-6, 4e-6, 5e-6])


def test_samples_read_back_as_they_were(tmp_path: Path) -> None:
    """Keys, times and statuses; what a kernel has no size for, or no time, is nothing."""
    path = tmp_path / "new" / "a.parquet"
    before = saved(path)
    after = Samples.open(path, HERE)
    assert list(after.rows) == list(before.rows)
    for key, row in before.rows.items():
        for name, value in row.items():
            read = after.rows[key][name]
            assert read is None if isinstance(value, float) and np.isnan(value) else read == value
    assert after.rows[GEMM.key]["bytes_moved"] is None
    assert [p.name for p in path.parent.iterdir()] == ["a.parquet"]


def test_the_table_of_read_samples_is_that_of_taken_ones(tmp_path: Path) -> None:
    """Whoever fits sees the same numbers, whether or not the file was read in between."""
    path = tmp_path / "a.parquet"
    taken, read = saved(path).table(), Samples.open(path, HERE).table()
    pd.testing.assert_frame_equal(taken, read, check_dtype=False)
    assert read["seconds"].isna().tolist() == [False, True]
    assert read["m"].dtype == np.float64


def test_reading_and_writing_twice_changes_nothing(tmp_path: Path) -> None:
    """A file that is gone on with holds what it held, also where it holds nothing."""
    path = tmp_path / "a.parquet"
    saved(path)
    again = Samples.open(path, HERE)
    again.save()
    twice = Samples.open(path, HERE)
    assert twice.rows == again.rows


def test_the_environment_is_kept(tmp_path: Path) -> None:
    """It stands in the file, letters of any alphabet too."""
    saved(tmp_path / "a.parquet", system="Größe 語")
    found = environment_of(pq.read_table(tmp_path / "a.parquet"))
    assert found == HERE | {"system": "Größe 語"}


def test_no_file_is_no_samples(tmp_path: Path) -> None:
    """A first session begins with none and writes nothing by asking."""
    assert Samples.open(tmp_path / "a.parquet", HERE).rows == {}
    assert list(tmp_path.iterdir()) == []


def test_another_machine_is_refused_by_what_differs(tmp_path: Path) -> None:
    """What differs is told with both values, what agrees is not; the file stays."""
    path = tmp_path / "a.parquet"
    saved(path)
    content = path.read_bytes()
    with pytest.raises(SamplesError) as caught:
        Samples.open(path, HERE | {"torch": "2.1", "threads": "8"})
    told = str(caught.value)
    assert "torch: 2.0 then, 2.1 now" in told
    assert "threads: None then, 8 now" in told
    assert "device" not in told
    assert "--fresh" in told
    assert path.read_bytes() == content


def test_clocks_may_move(tmp_path: Path) -> None:
    """A processor changes its clock from minute to minute; the newest is kept."""
    path = tmp_path / "a.parquet"
    saved(path)
    samples = Samples.open(path, HERE | {"clocks": "900 MHz"})
    samples.save()
    assert len(samples.rows) == 2
    assert environment_of(pq.read_table(path))["clocks"] == "900 MHz"


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no table at all " * 20])
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes) -> None:
    """Empty, cut short or something else: the path is named."""
    path = tmp_path / "a.parquet"
    path.write_bytes(content)
    with pytest.raises(SamplesError, match=r"a\.parquet cannot be read as samples"):
        Samples.open(path, HERE)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    """Cut off anywhere, a file of samples is no file of samples."""
    path = tmp_path / "a.parquet"
    saved(path)
    content = path.read_bytes()
    for length in np.linspace(1, len(content) - 1, 23).astype(int):
        path.write_bytes(content[:length])
        with pytest.raises(SamplesError, match="cannot be read as samples"):
            Samples.open(path, HERE)


@pytest.mark.parametrize("column", ["key", "kernel", "precision", "operation", "status", "seconds"])
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    """A table of something else, or of a part, says which column it lacks."""
    path = tmp_path / "a.parquet"
    saved(path)
    pq.write_table(pq.read_table(path).drop_columns([column]), path)
    with pytest.raises(SamplesError, match=f"has no column {column};"):
        Samples.open(path, HERE)


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_an_interrupted_save_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    """Stopped in the middle of writing, all old samples are there and no draft is."""
    path = tmp_path / "a.parquet"
    saved(path)
    content = path.read_bytes()
    samples = Samples.open(path, HERE)
    samples.add(Point("gemm", "bf16", {"m": 9}, 0, 1.0, 1.0), np.ones(3))

    def half(_table: pa.Table, draft: Path, **_: Any) -> None:
        draft.write_bytes(b"half")
        raise stop

    monkeypatch.setattr(pq, "write_table", half)
    with pytest.raises(stop):
        samples.save()
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_samples_are_thinned_evenly(tmp_path: Path) -> None:
    """Of a thousand, MOST_KEPT with the first and the last; the median is that of all."""
    samples = Samples(tmp_path / "a.parquet", HERE)
    samples.add(GEMM, np.arange(1.0, 1001.0))
    row = samples.rows[GEMM.key]
    assert len(row["samples_s"]) == MOST_KEPT
    assert (row["samples_s"][0], row["samples_s"][-1]) == (1.0, 1000.0)
    assert np.ptp(np.diff(row["samples_s"])) <= 1
    assert row["seconds"] == 500.5


def test_of_several_visits_the_fastest_counts(tmp_path: Path) -> None:
    """The key is the same for the same measurement, and another size is another key."""
    samples = Samples(tmp_path / "a.parquet", HERE)
    for visit, seconds in enumerate((2.0, 1.0, 3.0)):
        assert samples.visits(GEMM) == visit
        samples.add(GEMM, np.full(5, seconds))
    (row,) = samples.rows.values()
    assert (row["seconds"], row["visits"], row["samples_s"]) == (1.0, 3, [1.0] * 5)
    changed = [
        Point("lm_head", "bf16", GEMM.sizes, 0, 12.0, 12.0),
        Point("gemm", "fp32", GEMM.sizes, 0, 12.0, 12.0),
        Point("gemm", "bf16", {"m": 2, "n": 2, "k": 3}, 0, 12.0, 12.0),
        Point("gemm", "bf16", GEMM.sizes, 0, 12.0, 12.0, operation="other"),
        Point("gemm", "bf16", GEMM.sizes, 0, 12.0, 12.0, backend="other"),
        Point("gemm", "bf16", GEMM.sizes, 0, 12.0, 12.0, shape=(1,)),
    ]
    assert len({GEMM.key, *(point.key for point in changed)}) == 7
    assert Point("gemm", "bf16", GEMM.sizes, 5, 0.0, 0.0).key == GEMM.key
