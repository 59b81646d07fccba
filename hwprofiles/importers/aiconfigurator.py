"""NVIDIA's measured tables in aiconfigurator-core as points that a profile is fitted to."""

from collections import Counter
from collections.abc import Iterator, Sequence

import pandas as pd

from hwprofiles.fitting.device import Device
from hwprofiles.importers.all_reduce_tables import all_reduces
from hwprofiles.importers.attention_tables import CONTEXT, GENERATION, prompts, queries
from hwprofiles.importers.cold import Cold
from hwprofiles.importers.collected import Collection, Found, Table
from hwprofiles.importers.dense_tables import GEMM, heads, products
from hwprofiles.importers.expert_tables import experts
from hwprofiles.importers.imported import Imported
from hwprofiles.importers.known_gpus import Chip
from hwprofiles.importers.package import System, UnknownNameError
from hwprofiles.importers.stream_tables import streams
from hwprofiles.importers.table import TableError
from hwprofiles.profile import Peaks
from hwprofiles.provenance import Source

NEEDED: tuple[Table, ...] = (GEMM, CONTEXT, GENERATION)
"""Tables without which there is no profile."""


def read(
    system: System, chip: Chip, *, name: str, frameworks: Sequence[str] = (), points: str = ""
) -> Imported:
    """The points of *system*, of all *frameworks* or of those named, and its device.

    The profile will be called *name* and say that its points lie in the file *points*. Raises
    TableError or UnknownNameError.
    """
    for framework in frameworks:
        known = system.frameworks(GEMM.family)
        if framework not in known:
            raise UnknownNameError("framework", framework, known)
    collection = Collection(system, Cold(chip.last_level_cache_bytes), tuple(frameworks))
    for table in NEEDED:
        _require(collection, table)
    found = [each for each in _kernels(collection) if len(each.points)]
    device = _device(system, chip, name=name, points=points, found=found)
    capacities = f"{system.facts_file.name}; cache and multiprocessors: {chip.source}"
    return Imported(_joined(found), device, capacities, _left_out(collection))


def _require(collection: Collection, table: Table) -> None:
    folder = collection.system.folder(table.family)
    names = collection.frameworks(table.family)
    if not any(collection.system.versions(table.family, name, table.name) for name in names):
        of = f" of {', '.join(names)}" if collection.only else ""
        raise TableError(folder, f"has no {table.name}.parquet{of}, which a profile needs")


def _kernels(collection: Collection) -> Iterator[Found]:
    yield from products(collection)
    yield heads(collection)
    yield queries(collection)
    yield prompts(collection)
    yield from experts(collection)
    yield streams(collection)
    yield all_reduces(collection)


def _joined(found: Sequence[Found]) -> pd.DataFrame:
    named = [each.points.assign(kernel=each.kernel, precision=each.precision) for each in found]
    return pd.concat(named, ignore_index=True)


def _device(
    system: System, chip: Chip, *, name: str, points: str, found: Sequence[Found]
) -> Device:
    gigabytes = system.fact("gpu", "mem_capacity") / 1e9
    origin = f"AIConfigurator silicon collection (NVIDIA), {system.package.title}, {system.name}"
    return Device(
        name=name,
        description=f"{system.name}, {gigabytes:.0f} GB, as NVIDIA measured it for AIConfigurator",
        memory_bytes=system.fact("gpu", "mem_capacity"),
        last_level_cache_bytes=chip.last_level_cache_bytes,
        multiprocessors=chip.multiprocessors,
        source=origin,
        peaks=_peaks(system),
        few_full_tiles=True,
        points=points or None,
        notes=_notes(found),
    )


def _peaks(system: System) -> Peaks:
    """What the package says the GPU does at most, arithmetic without sparsity."""
    fp8 = "fp8_tc_flops"
    return Peaks(
        bf16_flop_per_s=system.fact("gpu", "bfloat16_tc_flops"),
        fp8_flop_per_s=system.fact("gpu", fp8) if system.has_fact("gpu", fp8) else None,
        memory_bytes_per_s=system.fact("gpu", "mem_bw"),
        link_bytes_per_s=system.fact("node", "intra_node_bw"),
        source=Source(kind="datasheet", text=f"{system.package.title}, systems/{system.name}.yaml"),
    )


def _notes(found: Sequence[Found]) -> dict[str, str]:
    """What is said of each kernel; of several data types each on its own."""
    notes: dict[str, str] = {}
    for each in found:
        several = sum(other.kernel == each.kernel for other in found) > 1
        told = f"{each.precision}: {each.note}" if several else each.note
        notes[each.kernel] = f"{notes[each.kernel]}. {told}" if each.kernel in notes else told
    return notes


def _left_out(collection: Collection) -> dict[str, int]:
    """Rows by table and data type."""
    total = Counter[str]()
    for path, counts in collection.left_out.items():
        total.update({f"{path.stem} {name}": count for name, count in counts.items()})
    return dict(sorted(total.items()))
