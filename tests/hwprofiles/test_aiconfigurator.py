"""Tables of aiconfigurator-core as points: what is taken, what is left out, what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hwprofiles import HardwareProfile
from hwprofiles.fitting import attention, gemm, moe, streaming
from hwprofiles.fitting.judging import residual
from hwprofiles.importers.aiconfigurator import read
from hwprofiles.importers.cold import Cold
from hwprofiles.importers.imported import Imported
from hwprofiles.importers.known_gpus import CHIPS, Chip
from hwprofiles.importers.package import (
    NotInstalledError,
    Package,
    UnknownNameError,
    installed,
    version_order,
)
from hwprofiles.importers.table import TableError
from tests.hwprofiles.made_up_tables import (
    CHIP,
    SYSTEM,
    all_reduces,
    experts,
    grid,
    package,
    products,
    prompts,
    put,
    quantisations,
    queries,
    truth,
    whole,
)


def imported(systems: Path, *frameworks: str, chip: Chip = CHIP) -> Imported:
    """What is read of the made-up system."""
    system = Package(systems, "0.0").system(SYSTEM)
    return read(system, chip, name="made-up", frameworks=frameworks, points="made-up.parquet")


def points(made: Imported, kernel: str, precision: str = "bf16") -> pd.DataFrame:
    """The points of one kernel and data type."""
    chosen = (made.points["kernel"] == kernel) & (made.points["precision"] == precision)
    return made.points[chosen]


@pytest.fixture(scope="module")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Imported:
    """The whole made-up system, read once."""
    return imported(package(tmp_path_factory.mktemp("whole")))


@pytest.fixture(scope="module")
def fitted(made_up: Imported) -> HardwareProfile:
    """The profile fitted to it, once."""
    return made_up.profile()


def test_the_curves_come_back_through_the_tables(
    made_up: Imported, fitted: HardwareProfile
) -> None:
    """Tables with the times of known curves give them back: every kernel within a few percent.

    A fifth of the time for what fits into the cache would show at once.
    """
    kernels = fitted.kernels
    judged = {
        "gemm": gemm.predicted_s(kernels.gemm["bf16"], points(made_up, "gemm")),
        "lm_head": gemm.predicted_s(kernels.lm_head["bf16"], points(made_up, "lm_head")),
        "attention_extend": attention.predicted_s(
            kernels.attention_extend["bf16"], points(made_up, "attention_extend")
        ),
        "attention_prefill": attention.predicted_s(
            kernels.attention_prefill["bf16"], points(made_up, "attention_prefill")
        ),
        "moe": moe.predicted_s(kernels.moe["bf16"], points(made_up, "moe")),
        "elementwise": streaming.predicted_s(kernels.elementwise, points(made_up, "elementwise")),
    }
    for kernel, predicted_s in judged.items():
        assert residual(predicted_s, points(made_up, kernel)["seconds"]).p90 < 0.03, kernel
    table, known = kernels.all_reduce, truth().kernels.all_reduce
    assert table is not None
    assert known is not None
    sizes = np.array([4096.0, 1e6, 1e8])
    for ranks in (2, 4):
        expected = known.by_ranks[ranks].lookup(sizes)
        assert table.by_ranks[ranks].lookup(sizes) == pytest.approx(expected, rel=0.1)


def test_what_a_profile_says_of_its_tables(fitted: HardwareProfile) -> None:
    """Package, frameworks with versions, rows, bounds, and what was taken from elsewhere."""
    said = fitted.kernels.gemm["bf16"].source.text
    for words in ("aiconfigurator-core 0.0", "vllm 0.24.0 180 rows", "weights >= 12 MB or < 1 MB"):
        assert words in said
    assert "row bandwidth and its residual are those of h100-sxm" in (
        fitted.kernels.elementwise.source.text
    )
    assert "custom_allreduce_perf: sglang" in str(fitted.kernels.all_reduce)
    assert fitted.peaks.source.text == "aiconfigurator-core 0.0, systems/made_up.yaml"
    assert (fitted.points, fitted.memory_bytes, fitted.multiprocessors) == (
        "made-up.parquet",
        141e9,
        132,
    )
    assert (fitted.peaks.bf16_flop_per_s, fitted.peaks.link_bytes_per_s) == (989e12, 450e9)


def test_bounds_grow_with_the_cache(tmp_path: Path) -> None:
    """A 126 MB cache hides weights below 30 MB and keys and values below 151 MB; by hand."""
    assert Cold(50e6).weight_bytes == 12e6
    assert Cold(50e6).whole_bytes == 60e6
    made = imported(package(tmp_path), chip=Chip(126e6, 148, "made up"))
    weight_bytes = 2.0 * points(made, "gemm")["n"] * points(made, "gemm")["k"]
    assert weight_bytes[weight_bytes >= 1e6].min() >= 0.24 * 126e6
    kv_bytes = attention.kv_bytes(points(made, "attention_extend"))
    assert kv_bytes[kv_bytes >= 2e6].min() >= 1.2 * 126e6
    moved = points(made, "elementwise")["bytes_moved"]
    assert moved[moved >= 5e5].min() >= 1.2 * 126e6


def test_a_point_is_the_median_over_frameworks(tmp_path: Path) -> None:
    """Of 1, 2 and 9 ms the second; of a framework's two kernels the faster counts."""
    systems = package(tmp_path)
    rows = products()
    for framework, milliseconds in (("sglang", 1.0), ("trtllm", 2.0), ("vllm", 9.0)):
        slow = rows.assign(latency=5 * milliseconds, kernel_source="slow")
        fast = rows.assign(latency=milliseconds)
        put(systems, "gemm", "gemm_perf", pd.concat([slow, fast]), framework)
    found = points(imported(systems), "gemm")
    assert found["seconds"].to_numpy() == pytest.approx(2e-3)
    assert set(found["framework"]) == {"sglang, trtllm, vllm"}
    assert set(found["version"]) == {"0.5.14, 1.3.0rc20, 0.24.0"}


def test_one_framework_alone(tmp_path: Path) -> None:
    """Only what the named one measured is taken."""
    systems = package(tmp_path)
    put(systems, "gemm", "gemm_perf", products().assign(latency=7.0), "sglang")
    found = points(imported(systems, "sglang"), "gemm")
    assert found["seconds"].to_numpy() == pytest.approx(7e-3)
    assert set(found["framework"]) == {"sglang"}


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.3.0rc20", "1.3.0"),
        ("1.3.0rc9", "1.3.0rc20"),
        ("0.5.6", "0.5.6.post2"),
        ("0.5.6.post2", "0.5.14"),
        ("1.2.0rc5", "1.3.0rc1"),
        ("2.27", "2.27.3"),
    ],
)
def test_versions_in_order(older: str, newer: str) -> None:
    """A candidate comes before its release, a post-release after, and numbers count as numbers."""
    assert version_order(older) < version_order(newer)


def test_the_newest_version_with_rows_is_taken(tmp_path: Path) -> None:
    """A newer one wins; one that has other data types only, or only a reference, gives way."""
    systems = package(tmp_path)
    put(systems, "gemm", "gemm_perf", products().assign(latency=3.0), "vllm", "0.25.0")
    put(systems, "gemm", "gemm_perf", products("nvfp4"), "vllm", "0.26.0")
    folder = systems / "data" / SYSTEM / "gemm" / "vllm" / "0.27.0"
    folder.mkdir()
    (folder / "reuse.yaml").write_text("schema_version: 1\n")
    made = imported(systems, "vllm")
    assert set(points(made, "gemm")["version"]) == {"0.25.0"}
    assert points(made, "gemm")["seconds"].to_numpy() == pytest.approx(3e-3)
    assert made.left_out == {"gemm_perf nvfp4": len(products())}


def test_unsound_rows_are_left_out(tmp_path: Path) -> None:
    """Absurd times in the rows that derive leaves out change nothing."""
    systems = package(tmp_path)
    before = imported(systems).points
    absurd = {"latency": 999.0}
    odd_rows = products().query("m == 64").assign(m=65, **absurd)
    wide = products().query("m == 64").assign(k=32768, **absurd)
    put(systems, "gemm", "gemm_perf", pd.concat([products(), odd_rows, wide]))
    shared = queries().assign(num_heads=32, num_key_value_heads=1, **absurd)
    plain = queries()
    strange = [plain.assign(**{name: value}, **absurd) for name, value in STRANGE_ATTENTION]
    rows = pd.concat([plain.query("num_heads < 16 * num_key_value_heads"), shared, *strange])
    put(systems, "attention", "generation_attention_perf", rows, "trtllm")
    short = prompts().assign(isl=1, **absurd)
    put(systems, "attention", "context_attention_perf", pd.concat([prompts(), short]))
    modules = [experts().assign(**{name: value}, **absurd) for name, value in STRANGE_EXPERTS]
    put(systems, "moe", "moe_perf", pd.concat([experts(), *modules]))
    put(systems, "quantize", "scale_matrix_perf", quantisations().assign(**absurd), "sglang")
    eager = all_reduces().assign(backend="vllm_eager", **absurd)
    put(systems, "comm", "custom_allreduce_perf", pd.concat([all_reduces(), eager]))
    pd.testing.assert_frame_equal(imported(systems).points, before)


STRANGE_ATTENTION = (("head_dim", 64), ("window_size", 1024), ("attn_dtype", "fp8"))
STRANGE_EXPERTS = (
    ("distribution", "power_law_1.2"),
    ("moe_ep_size", 8),
    ("moe_tp_size", 32),
    ("kernel_source", "moe_nongated"),
    ("hidden_size", 2688),  # that no other framework measured
)


def test_fp8_comes_from_sound_products(tmp_path: Path) -> None:
    """Per-tensor times of vLLM and block-scaled ones of TensorRT-LLM count, not the reverse."""
    systems = package(tmp_path)
    for framework, sound, unsound in (
        ("vllm", "fp8", "fp8_block"),
        ("trtllm", "fp8_block", "fp8"),
    ):
        kinds = ((sound, 2.0), (unsound, 999.0))
        fp8 = [products(kind).assign(latency=latency) for kind, latency in kinds]
        put(systems, "gemm", "gemm_perf", pd.concat([products(), *fp8]), framework)
    found = points(imported(systems), "gemm", "fp8")
    assert found["seconds"].to_numpy() == pytest.approx(2e-3)
    assert found[["n", "k"]].min().min() == 1024
    assert imported(systems).left_out == {}


def test_tables_without_a_window_have_none(tmp_path: Path) -> None:
    """Older attention tables lack the column; their rows are plain attention."""
    systems = package(tmp_path)
    before = points(imported(systems), "attention_extend")
    old = queries().drop(columns="window_size")
    put(systems, "attention", "generation_attention_perf", old)
    pd.testing.assert_frame_equal(points(imported(systems), "attention_extend"), before)


def test_more_rows_than_a_cold_point_has_are_left_out(tmp_path: Path) -> None:
    """Small caches under 64 heads a KV head tell only of launches, as none of them is cold."""
    tiny = queries().query("step < 10").assign(num_heads=64, num_key_value_heads=1)
    tables = whole() | {("attention", "generation_attention_perf"): pd.concat([queries(), tiny])}
    found = points(imported(package(tmp_path, tables)), "attention_extend")
    assert (found["query_heads"] / found["kv_heads"]).max() == 32


def test_products_of_one_row_stand_for_streams(tmp_path: Path) -> None:
    """Without a streaming kernel the bandwidth is that of one row's products, and it says so."""
    tables = whole()
    del tables["quantize", "scale_matrix_perf"]
    small = (256, 320, 384, 448, 512)
    grown = grid(m=(1,), n=(*small, 8192, 16384, 65536), k=(*small, 8192, 16384))
    times = truth().kernels.gemm["bf16"].time(*(grown[name].to_numpy(float) for name in "mnk"))
    single = grown.assign(
        gemm_dtype="bfloat16", kernel_source="linear", latency=1e3 * times.seconds
    )
    tables["gemm", "gemm_perf"] = pd.concat([products().query("m > 1"), single])
    profile = imported(package(tmp_path, tables)).profile()
    curve = profile.kernels.elementwise
    assert "products of one row" in curve.source.text
    cold = truth().kernels.gemm["bf16"].memory_bytes_per_s
    assert curve.memory_bytes_per_s == pytest.approx(cold, rel=0.1)


def test_nccl_takes_over_beyond_16_mb(tmp_path: Path) -> None:
    """A custom kernel's larger messages give way, and other numbers of GPUs are NCCL's alone."""
    nccl = grid(num_gpus=(2, 8), message_size=[2**power for power in range(7, 28, 2)]).assign(
        nccl_dtype="half", op_name="all_reduce", kernel_source="nccl", latency=5.0
    )
    systems = package(tmp_path)
    others = [nccl.assign(op_name="all_gather"), nccl.assign(nccl_dtype="int8")]
    put(
        systems,
        "comm",
        "nccl_perf",
        pd.concat([nccl, *(rows.assign(latency=999.0) for rows in others)]),
        "nccl",
        "2.29.2",
    )
    made = imported(systems)
    found = points(made, "all_reduce").set_index(["ranks", "message_bytes"])["seconds"]
    assert found[2, 2.0**24] < 1e-3
    assert found[2, 2.0**26] == pytest.approx(5e-3)
    assert found[8].to_numpy() == pytest.approx(5e-3)
    assert len(found[8]) == 11
    assert made.left_out == {"nccl_perf int8": len(nccl)}


def test_without_communication_there_is_no_all_reduce(tmp_path: Path) -> None:
    """A system of one GPU has a profile all the same; nor need it have experts."""
    tables = whole()
    del tables["comm", "custom_allreduce_perf"]
    del tables["moe", "moe_perf"]
    made = imported(package(tmp_path, tables))
    assert {"all_reduce", "moe"}.isdisjoint(made.points["kernel"])


@pytest.mark.parametrize("table", [("gemm", "gemm_perf"), ("attention", "context_attention_perf")])
def test_a_table_that_a_profile_needs_is_missed(tmp_path: Path, table: tuple[str, str]) -> None:
    """The file that is not there is named."""
    tables = whole()
    del tables[table]
    if table[0] == "gemm":
        systems = package(tmp_path, tables)
        (systems / "data" / SYSTEM / "gemm").mkdir()
    else:
        systems = package(tmp_path, tables)
    with pytest.raises(TableError, match=rf"no {table[1]}.parquet"):
        imported(systems)


@pytest.mark.parametrize("wrong", [-1.0, 0.0, float("nan"), float("inf")])
def test_wrong_times_are_named_by_row(tmp_path: Path, wrong: float) -> None:
    """The file, the row's number in it and the value; other data types may be as they like."""
    systems = package(tmp_path)
    rows = pd.concat([products("nvfp4").assign(latency=np.nan), products()], ignore_index=True)
    bad = len(products()) + 3
    rows.loc[bad, "latency"] = wrong
    path = put(systems, "gemm", "gemm_perf", rows)
    with pytest.raises(TableError) as caught:
        imported(systems)
    assert caught.value.origin == str(path)
    assert f"latency of row {bad}: {wrong}" in caught.value.what


def test_zero_sizes_are_refused(tmp_path: Path) -> None:
    """No division by zero KV heads."""
    systems = package(tmp_path)
    rows = queries().assign(num_key_value_heads=0)
    put(systems, "attention", "generation_attention_perf", rows)
    with pytest.raises(TableError, match=r"num_key_value_heads of row 0: 0;.* and 135 more"):
        imported(systems)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    """By table and column."""
    systems = package(tmp_path)
    path = put(systems, "moe", "moe_perf", experts().drop(columns=["topk", "latency"]))
    with pytest.raises(TableError, match="has no column topk, latency") as caught:
        imported(systems)
    assert caught.value.origin == str(path)


def test_an_unreadable_table_is_named(tmp_path: Path) -> None:
    """Not every file of that name is Parquet."""
    systems = package(tmp_path)
    path = put(systems, "gemm", "gemm_perf", products())
    path.write_text("m,n,k\n")
    with pytest.raises(TableError, match="no readable Parquet") as caught:
        imported(systems)
    assert caught.value.origin == str(path)


def test_facts_are_checked(tmp_path: Path) -> None:
    """A system without a bandwidth has no profile; one whose facts are no mapping neither."""
    systems = package(tmp_path)
    facts = systems / f"{SYSTEM}.yaml"
    facts.write_text("gpu: {mem_capacity: 1, bfloat16_tc_flops: 1}\nnode: {}\n")
    with pytest.raises(TableError, match=r"gpu.mem_bw is a number above zero, got None"):
        imported(systems)
    facts.write_text("- a list\n")
    with pytest.raises(TableError, match="no mapping"):
        imported(systems)


def test_unknown_names_come_with_the_known(tmp_path: Path) -> None:
    """Systems and frameworks that are not there; a system that has facts alone says so."""
    systems = package(tmp_path)
    (systems / "bare.yaml").write_text("gpu: {mem_bw: 1}\n")
    with pytest.raises(UnknownNameError) as caught:
        Package(systems, "0.0").system("mad_up")
    assert (caught.value.name, caught.value.known) == ("mad_up", [SYSTEM])
    with pytest.raises(TableError, match="facts but no tables"):
        Package(systems, "0.0").system("bare")
    with pytest.raises(UnknownNameError) as caught:
        imported(systems, "vlm")
    assert (caught.value.kind, caught.value.known) == ("framework", ["sglang", "trtllm", "vllm"])


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra that brings it."""
    monkeypatch.setitem(__import__("sys").modules, "aiconfigurator_core", None)
    with pytest.raises(NotInstalledError, match=r"pip install 'blockcast\[aiconfigurator\]'"):
        installed()


@pytest.fixture(scope="module")
def nvidia() -> Package:
    """The installed package; skips the test where there is none."""
    try:
        return installed()
    except NotInstalledError as error:
        pytest.skip(str(error))


def test_the_shipped_curves_hold_on_the_package(nvidia: Package) -> None:
    """Its tables are where the H200's are from: those err on its points as on their own."""
    made = read(nvidia.system("h200_sxm"), CHIPS["h200_sxm"], name="any")
    kernels = truth().kernels
    errors = {
        "gemm": gemm.predicted_s(kernels.gemm["bf16"], points(made, "gemm")),
        "lm_head": gemm.predicted_s(kernels.lm_head["bf16"], points(made, "lm_head")),
        "attention_extend": attention.predicted_s(
            kernels.attention_extend["bf16"], points(made, "attention_extend")
        ),
        "attention_prefill": attention.predicted_s(
            kernels.attention_prefill["bf16"], points(made, "attention_prefill")
        ),
        "moe": moe.predicted_s(kernels.moe["bf16"], points(made, "moe")),
        "elementwise": streaming.predicted_s(kernels.elementwise, points(made, "elementwise")),
    }
    for kernel, predicted_s in errors.items():
        rows = points(made, kernel)
        assert len(rows) > 300, kernel
        assert residual(predicted_s, rows["seconds"]).median < 0.07, kernel
    table = kernels.all_reduce
    assert table is not None
    messages = points(made, "all_reduce")
    for ranks, messages_of in table.by_ranks.items():
        rows = messages[messages["ranks"] == ranks]
        found = messages_of.lookup(rows["message_bytes"].to_numpy())
        assert residual(found, rows["seconds"]).median < 0.01


@pytest.mark.parametrize("name", ["a100_sxm", "b60"])
def test_systems_of_the_package_can_be_read(nvidia: Package, name: str) -> None:
    """Old and new versions, few frameworks and many, give the points of a dense decoder."""
    made = read(nvidia.system(name), CHIPS.get(name, CHIPS["b200_sxm"]), name=name)
    counts = made.points.groupby("kernel").size()
    for kernel in ("gemm", "lm_head", "attention_extend", "attention_prefill", "elementwise"):
        assert counts[kernel] >= 20, kernel
    assert (made.points["seconds"] > 0).all()
