"""`blockcast import-hardware`: files written, answers printed, and mistakes told."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from hwprofiles.fitting.document import document
from hwprofiles.fitting.points import SIZES
from hwprofiles.importers.aiconfigurator import read
from hwprofiles.importers.known_gpus import CHIPS
from hwprofiles.importers.package import NotInstalledError, installed
from simulator.library import HARDWARE
from tests.cli.command import Answer, call, small, written
from tests.hwprofiles.made_up_tables import SYSTEM, package, products, put, put_vidur

CHIP = ("--l2-bytes", "50MB", "--multiprocessors", "132")


@pytest.fixture
def systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A made-up package that is found before any installed one."""
    folder = package(tmp_path / "site")
    monkeypatch.syspath_prepend(tmp_path / "site")
    return folder


def import_made_up(*arguments: object) -> Answer:
    """The command for the made-up system."""
    return call("import-hardware", "aiconfigurator", "--system", SYSTEM, *CHIP, *arguments)


@pytest.mark.usefixtures("systems")
def test_a_profile_and_its_points_are_written() -> None:
    """Named as asked, with the command, the points' file and what each curve is fitted to."""
    answer = import_made_up("-o", "profiles/mine.yaml", "--name", "made")
    assert (answer.code, answer.err.strip()) == (0, "")
    profile = HARDWARE.get("profiles/mine.yaml")
    assert (profile.name, profile.points) == ("made", "mine.parquet")
    text = Path("profiles/mine.yaml").read_text(encoding="utf-8")
    assert "Made by `blockcast import-hardware aiconfigurator --system made_up`" in text
    assert "cache and multiprocessors: the command line" in text
    points = pq.read_table("profiles/mine.parquet").to_pandas()
    assert {"kernel", "precision", "seconds", "framework", "version"} <= set(points)
    assert set(points["kernel"]) == set(SIZES)
    assert sorted(path.name for path in Path("profiles").iterdir()) == [
        "mine.parquet",
        "mine.yaml",
    ]
    for words in ("bf16 gemm", "all_reduce", "profiles/mine.yaml", "profiles/mine.parquet"):
        assert words in answer.out
    drawn = call("show", "hardware", "profiles/mine.yaml", "--plot", "mine.svg")
    assert drawn.code == 0


@pytest.mark.usefixtures("systems")
def test_names_and_files_by_default() -> None:
    """The system's name with dashes names profile and files; as JSON one object."""
    answer = import_made_up("--json")
    assert answer.code == 0
    told = json.loads(answer.out)
    assert (told["profile"], told["samples"]) == ("made-up.yaml", "made-up.parquet")
    assert HARDWARE.get("made-up.yaml").name == "made-up"
    counts = {curve["kernel"]: curve["all_points"] for curve in told["kernels"]}
    points = pd.read_parquet("made-up.parquet")
    assert counts == points.groupby("kernel").size().to_dict()


@pytest.mark.usefixtures("systems")
@pytest.mark.parametrize("there", ["mine.yaml", "mine.parquet"])
def test_nothing_is_overwritten_unless_told(there: str) -> None:
    """Either file is kept as it is."""
    Path(there).write_text("mine")
    answer = import_made_up("-o", "mine.yaml")
    assert answer.code == 1
    assert f"{there}:\n  exists; --force" in answer.err
    assert Path(there).read_text() == "mine"


def test_left_out_types_are_counted(systems: Path) -> None:
    """Data types that no profile has are told with the number of their rows.

    The files there were give way to --force, and the profile is called as its file.
    """
    put(systems, "gemm", "gemm_perf", pd.concat([products(), products("nvfp4")]))
    for name in ("mine.yaml", "mine.parquet"):
        Path(name).write_text("mine")
    answer = import_made_up("-o", "mine.yaml", "--force")
    assert HARDWARE.get("./mine.yaml").name == "mine"
    assert f"{len(products())} of gemm_perf nvfp4" in answer.out


def test_vidur_makes_a_profile_of_a_known_gpu(tmp_path: Path) -> None:
    """The data sheet's peaks and memory; a dense scenario runs on it, experts do not."""
    folder = put_vidur(tmp_path)
    answer = call("import-hardware", "vidur", "--from", folder, "--gpu", "h100", "-o", "v.yaml")
    assert (answer.code, answer.err.strip()) == (0, "")
    profile = HARDWARE.get("./v.yaml")
    assert (profile.memory_bytes, profile.peaks.bf16_flop_per_s) == (80e9, 989e12)
    ran = call("run", written(small(hardware="./v.yaml")), "--json")
    assert ran.code == 0
    decode = {"policy": "single-block", "block": 32, "tokens_per_forward": 2.0}
    sparse = small(hardware="./v.yaml", model="llada2-mini", engine="ideal", decode=decode)
    refused = call("run", written(sparse))
    assert refused.code == 1
    assert "moe" in refused.err


def test_vidur_of_another_gpu_takes_its_facts(tmp_path: Path) -> None:
    """Memory, cache and multiprocessors from the command line; peaks are the most measured."""
    folder = put_vidur(tmp_path)
    asked = ("import-hardware", "vidur", "--from", folder, "--gpu", "h800")
    assert "no GPU 'h800'; did you mean h100 or a100?" in call(*asked).err
    assert "--l2-bytes" in call(*asked, "--memory-bytes", "80GB").err
    assert call(*asked, "--memory-bytes", "80GB", *CHIP).code == 0
    profile = HARDWARE.get("./h800.yaml")
    assert (profile.memory_bytes, profile.multiprocessors) == (80e9, 132)
    assert profile.peaks.source.kind == "measured"


def refusals(systems: Path) -> dict[str, tuple[Any, ...]]:
    """What is wrong and what to say of it."""
    return {
        "unknown system": (("--system", "mad_up", *CHIP), "did you mean made_up? known: made_up"),
        "unknown framework": (("--framework", "vlm", *CHIP), "did you mean vllm?"),
        "no facts": ((), "--l2-bytes, --multiprocessors"),
        "half the facts": (("--l2-bytes", "50MB"), "give both"),
        "a size without sense": (("--l2-bytes", "much", "--multiprocessors", "1"), "--l2-bytes"),
        "not YAML": ((*CHIP, "-o", "mine.json"), "mine.yaml"),
        "a folder": ((*CHIP, "-o", f"{systems.parent}/x.yaml"), "is a folder"),
        "no place": ((*CHIP, "-o", "file/mine.yaml"), "cannot be written"),
    }


@pytest.mark.parametrize("case", list(refusals(Path("any"))))
def test_mistakes_are_told(case: str, systems: Path) -> None:
    """Exit 1 and what to do; no file is left."""
    (systems.parent / "x.yaml").mkdir()
    Path("file").write_text("")
    arguments, words = refusals(systems)[case]
    given = arguments if "--system" in arguments else ("--system", SYSTEM, *arguments)
    answer = call("import-hardware", "aiconfigurator", *given)
    assert answer.code == 1
    assert words in answer.err
    assert not list(Path().glob("*.yaml"))
    assert not list(Path().glob("*.parquet"))


def test_a_broken_table_is_told(systems: Path) -> None:
    """The file and what is wrong in it, without a traceback."""
    path = put(systems, "gemm", "gemm_perf", products().assign(latency=-1.0))
    answer = import_made_up()
    assert answer.code == 1
    assert answer.err.lstrip().startswith(
        f"blockcast: {path}:\n  sizes and times are numbers above zero"
    )
    path.write_bytes(b"nothing")
    assert "is no readable Parquet table" in import_made_up().err


def test_too_few_points_are_told(systems: Path) -> None:
    """A kernel with fewer than a curve takes."""
    for framework in ("sglang", "trtllm", "vllm"):
        put(systems, "gemm", "gemm_perf", products().head(12), framework)
    answer = import_made_up()
    assert answer.code == 1
    assert "a curve takes 20" in answer.err


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra that brings it."""
    monkeypatch.setitem(sys.modules, "aiconfigurator_core", None)
    answer = call("import-hardware", "aiconfigurator", "--system", "b200_sxm")
    assert answer.code == 1
    assert "pip install 'blockcast[aiconfigurator]'" in answer.err


def test_a_missing_folder_of_vidur_is_told() -> None:
    """The folder is named."""
    answer = call("import-hardware", "vidur", "--from", "nowhere", "--gpu", "h100")
    assert answer.code == 1
    assert "nowhere:\n  is no folder" in answer.err


def test_help_names_both_sources() -> None:
    """And each source says what it reads."""
    answer = call("import-hardware", "--help")
    assert answer.code == 0
    assert {"aiconfigurator", "vidur"} <= set(answer.out.split())
    for source in ("aiconfigurator", "vidur"):
        assert "--force" in call("import-hardware", source, "--help").out


REAL = ("a100", "b200")


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Profiles of NVIDIA's tables of A100 and B200; skips the test where there are none."""
    try:
        package_of_nvidia = installed()
    except NotInstalledError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("real")
    for name in REAL:
        found = read(package_of_nvidia.system(f"{name}_sxm"), CHIPS[f"{name}_sxm"], name=name)
        # A fifth of the points says enough for a test.
        thin = replace(found, points=found.points.iloc[::5])
        text = document(thin.profile(), "a test", thin.capacities)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.yaml" for name in REAL}


def test_b200_and_a100_against_h200(real: dict[str, Path]) -> None:
    """Alone, a request is bound by memory and launches: B200 gains less than its 1.6 times the
    bandwidth, A100 loses about its 2.35 times; each by its data sheet.
    """  # noqa: D205 (one sentence)
    tokens_per_s = {}
    for name, hardware in {"h200": "h200-sxm", **real}.items():
        path = written(small(hardware=str(hardware), workload__concurrency=1))
        answer = call("run", path, "--json")
        assert answer.code == 0, answer.err
        tokens_per_s[name] = json.loads(answer.out)["metrics"]["output_tokens_per_s"]
    assert 1.2 < tokens_per_s["b200"] / tokens_per_s["h200"] < 7.7 / 4.8
    assert 1.8 < tokens_per_s["h200"] / tokens_per_s["a100"] < 2.6


def test_no_curve_of_a_real_gpu_beats_its_data_sheet(real: dict[str, Path]) -> None:
    """Fitted bandwidth and arithmetic stay below what NVIDIA promises."""
    for path in real.values():
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        peaks, kernels = document["peaks"], document["kernels"]
        for kernel in ("gemm", "lm_head", "attention_extend", "moe"):
            for precision, curve in kernels[kernel].items():
                assert curve["memory_bytes_per_s"] <= peaks["memory_bytes_per_s"]
                assert curve["flop_per_s"] < peaks[f"{precision}_flop_per_s"]
