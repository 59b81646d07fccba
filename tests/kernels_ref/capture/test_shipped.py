"""The shipped traces: they are those of the list, of the shipped checkpoints, and repeatable."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

from kernels_ref.capture.shipped import shipped_traces
from kernels_ref.checkpoint import CHECKPOINTS
from kernels_ref.decoders import policy, policy_names
from kernels_ref.drafting.checkpoint import made_manifest
from reports.marked_page import with_tables
from simulator.scenario import settings_of
from tests.cli.command import call
from traces import DATA
from traces.iteration_statistics import summary, truncated
from traces.reading import read_trace
from traces.writing import write_trace

ROOT = Path(__file__).parents[3]
SHIPPED = {trace.name: trace for trace in shipped_traces()}
SMALL = ("ref-small", "ref-small-uno")


def options(name: str) -> dict[str, list[str]]:
    """The options of a shipped trace: values by name."""
    given = SHIPPED[name].options
    found: dict[str, list[str]] = {}
    for option, value in zip(given[::2], given[1::2], strict=True):
        found.setdefault(option, []).append(value)
    return found


def _settings(parameters: Any) -> dict[str, Any]:
    """Parameters as a manifest has them."""
    return {key: value for key, value in vars(parameters).items() if key not in {"policy", "block"}}


def test_the_folder_holds_what_the_list_says() -> None:
    """No trace of the list is missing, none is there that cannot be made again."""
    assert len(SHIPPED) == len(shipped_traces())
    assert {path.name for path in DATA.glob("ref-*")} == set(SHIPPED)


def test_every_decoder_has_a_trace() -> None:
    """Each policy of the folder is captured on its own checkpoint, block decoders as they are."""
    own = [name for name in SHIPPED if "--checkpoint" not in options(name)]
    assert {options(name)["--decoder"][0] for name in own} == set(policy_names())
    plain = {
        manifest.policy
        for manifest in (read_trace(DATA / name).manifest for name in own)
        if manifest.parameters == _settings(policy(manifest.policy).Parameters())
    }
    assert plain >= set(policy_names("blocks"))


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_trace_is_what_its_line_says(name: str) -> None:
    """Parameters, batch and problems are the list's, and the weights are shipped too."""
    manifest = read_trace(DATA / name).manifest
    asked = options(name)
    chosen = policy(manifest.policy)
    assert [manifest.policy] == asked["--decoder"]
    settings: dict[str, Any] = settings_of(tuple(asked.get("--set", [])))
    parameters = TypeAdapter(chosen.Parameters).validate_python(settings)
    assert manifest.parameters == _settings(parameters)
    assert manifest.block_tokens == (parameters.block or manifest.checkpoint.trained_block_tokens)
    assert [str(manifest.batch)] == asked["--batch"]
    assert [str(manifest.counts.requests)] == asked["--problems"]
    checkpoint = asked.get("--checkpoint", [chosen.CHECKPOINT])[0]
    shipped = made_manifest(CHECKPOINTS / f"{checkpoint}.yaml")
    assert (manifest.checkpoint.name, manifest.checkpoint.sha256) == (
        shipped.name,
        shipped.sha256,
    )
    assert not manifest.partial


@pytest.mark.parametrize("name", SMALL)
def test_capturing_again_gives_the_same(name: str, tmp_path: Path) -> None:
    """A shipped trace made again is equal, to the byte where the same library writes it.

    The manifest differs in software and bytes of tables at most.
    """
    made = tmp_path / name
    answer = call("capture", *SHIPPED[name].options, "--out", made, "--json")
    assert (answer.code, answer.err) == (0, "")
    ours, theirs = read_trace(made), read_trace(DATA / name)
    one, other = (
        {**vars(trace.manifest), "software": {}, "tables": {}} for trace in (ours, theirs)
    )
    assert one == other
    for table in ours.manifest.TABLES:
        assert ours.table(table).equals(theirs.table(table))
        _check_bytes(made / f"{table}.parquet", DATA / name / f"{table}.parquet")


def _check_bytes(ours: Path, theirs: Path) -> None:
    """Equal files where the same library wrote them."""
    if pq.read_metadata(theirs).created_by == pq.read_metadata(ours).created_by:
        assert ours.read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("name", SMALL)
def test_reading_and_writing_changes_no_byte(name: str, tmp_path: Path) -> None:
    """What is read of a shipped trace, written again, is the same trace."""
    trace = read_trace(DATA / name)
    fields = {key: value for key, value in vars(trace.manifest).items() if key != "tables"}
    tables = {table: trace.table(table) for table in trace.manifest.TABLES}
    write_trace(tmp_path / name, fields, tables)
    again = read_trace(tmp_path / name)
    assert all(again.table(table).equals(trace.table(table)) for table in tables)
    for table in tables:
        _check_bytes(tmp_path / name / f"{table}.parquet", DATA / name / f"{table}.parquet")


def _script(name: str) -> ModuleType:
    """One of the scripts that write the page's tables."""
    spec = importlib.util.spec_from_file_location(name, ROOT / f"docs/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_the_traces_numbers() -> None:
    """Every table of docs/reference-decoder.md is what the shipped traces give."""
    blocks, iterations = _script("reference_decoder"), _script("speculative_decoders")
    traces, rows = blocks.read_traces(DATA)
    found = blocks.tables(rows, traces) | iterations.tables(iterations.read_traces(DATA))
    text = blocks.PAGE.read_text(encoding="utf-8")
    assert text.count("<!-- table: ") == len(found)
    assert with_tables(text, found) == text


@pytest.mark.parametrize(
    ("chain", "error"),
    [("uno-linear", 0.04), ("eagle3-linear", 0.03), ("dflash", 0.03), ("self-speculation", 0.03)],
)
def test_a_longer_draft_is_a_shorter_one_continued(chain: str, error: float) -> None:
    """Drafts at block 16, read at 8 and 4, are about what is captured there; the page says why."""
    traces = _script("speculative_decoders").read_traces(DATA)
    for temperature in (0, 1):
        for block in (8, 4):
            captured = summary(traces[f"{chain}-b{block}-t{temperature}"])["tokens_per_step"]
            read = truncated(traces[f"{chain}-b16-t{temperature}"], block)
            assert read == pytest.approx(captured, rel=error), (temperature, block)


def test_greedy_outputs_are_those_of_autoregression() -> None:
    """Every shipped greedy trace has the very tokens of autoregression, on all held-out prompts."""
    traces = _script("speculative_decoders").read_traces(DATA)
    plain = traces["ar-t0"].requests["output"]
    greedy = {n: t for n, t in traces.items() if t.manifest.parameters["temperature"] == 0}
    assert len(greedy) > len(policy_names("iterations"))
    assert all(trace.requests["output"].equals(plain) for trace in greedy.values())
