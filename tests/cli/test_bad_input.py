"""What a user gets wrong ends in one message that says where and what, and in nothing else."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator import library
from tests.cli.command import Answer, call, installed, small, written

NAN, INFINITY = float("nan"), float("inf")
UNO_TRACE = {"policy": "uno-linear", "trace": "uno-qwen3-8b-t1"}
UNO_TREE = {"policy": "uno-tree", "trace": "uno-qwen3-8b-t1", "block": 16}
BLOCKS = {"policy": "single-block", "block": 32}
HEADER = (
    "model,hardware,decode.policy,workload.concurrency,workload.prompt_tokens,"
    "workload.output_tokens,output_tokens_per_s"
)
ROW = "qwen3-8b,h200-sxm,ar,1,64,32,170"


def everything() -> dict[str, int]:
    """Every path below the test's folder, with its size."""
    return {str(path): path.lstat().st_size for path in Path().rglob("*")}


def check_refused(answer: Answer, *words: str) -> None:
    """One message on standard error with the *words*, nothing on standard output, exit code 1."""
    assert answer.code == 1
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert answer.err.lstrip("\n").startswith("blockcast: ")
    assert answer.err.count("blockcast: ") == 1
    for word in words:
        assert word in answer.err


def refused(document: Any, *words: str, options: tuple[object, ...] = ()) -> Answer:
    """Run *document*; it is refused with the *words*, and nothing is written."""
    path = written(document)
    before = everything()
    answer = call("run", path, "--json", "--out", "result", *options)
    check_refused(answer, str(path), *words)
    assert everything() == before
    return answer


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (small(modle="x"), ["modle", "did you mean model"]),
        (small(decode__blok=4), ["decode.blok", "did you mean block"]),
        (small(workload__concurency=4), ["workload.concurency", "did you mean concurrency"]),
        (small(parallel__tpp=2), ["parallel.tpp", "did you mean tp?"]),
        (small(batching__max_bach=2), ["batching.max_bach", "did you mean max_batch"]),
        (small(precision__wieghts="bf16"), ["precision.wieghts", "did you mean weights"]),
        (small(routing__knd="zipf"), ["routing.knd", "did you mean kind"]),
        (small(decode={1: 2, "policy": "ar"}), ["decode.1", "a field name is text"]),
    ],
)
def test_unknown_fields(document: dict[str, Any], words: list[str]) -> None:
    """A field that does not exist is an error wherever it stands, with the nearest that does."""
    refused(document, "no field" if "1" not in words[0] else "text", *words)


@pytest.mark.parametrize(
    ("document", "where", "near"),
    [
        (small(model="qwen3-8"), "model: no model 'qwen3-8'", "qwen3-8b"),
        (small(hardware="h300-sxm"), "hardware: no hardware profile 'h300-sxm'", "h200-sxm"),
        (small(engine="nano"), "engine: no engine 'nano'", "nano-vllm"),
        (small(decode__policy="uno-liner"), "decode.policy: no policy 'uno-liner'", "uno-linear"),
        (small(decode=UNO_TRACE | {"trace": "uno-qwen"}), "decode.trace: no trace", "uno-qwen3"),
        (small(decode=UNO_TRACE | {"benchmark": "gsm8"}), "decode.benchmark: no", "GSM8K"),
        (small(batching__mode="continous"), "batching.mode: no batching mode", "continuous"),
        (small(workload__kind="close"), "workload.kind: no kind 'close'", "closed"),
    ],
)
def test_unknown_names(document: dict[str, Any], where: str, near: str) -> None:
    """A name that does not exist is an error with the nearest ones and all the known ones."""
    refused(document, where, f"did you mean {near}", "known: ")


@pytest.mark.parametrize(
    ("document", "where", "value"),
    [
        (small(workload__concurrency=-1), "workload.concurrency", "-1"),
        (small(workload__concurrency=0), "workload.concurrency", "0"),
        (small(workload__concurrency=NAN), "workload.concurrency", "nan"),
        (small(workload__concurrency=INFINITY), "workload.concurrency", "inf"),
        (small(workload__concurrency=True), "workload.concurrency", "True"),
        (small(workload__concurrency="2"), "workload.concurrency", "'2'"),
        (small(workload__concurrency=2.5), "workload.concurrency", "2.5"),
        (small(workload__concurrency=[2]), "workload.concurrency", "a list"),
        (small(workload__concurrency={"a": 1}), "workload.concurrency", "a mapping"),
        (small(workload__requests=0), "workload.requests", "0"),
        (small(workload__output_tokens=0), "workload.output_tokens", "0"),
        (small(workload__prompt_tokens=-5), "workload.prompt_tokens", "-5"),
        (small(decode__tokens_per_step=NAN), "decode.tokens_per_step", "nan"),
        (small(decode__tokens_per_step=INFINITY), "decode.tokens_per_step", "inf"),
        (small(decode__tokens_per_step=-INFINITY), "decode.tokens_per_step", "-inf"),
        (small(decode__tokens_per_step=True), "decode.tokens_per_step", "True"),
        (small(decode__tokens_per_step="3"), "decode.tokens_per_step", "'3'"),
        (small(decode__tokens_per_step=0), "decode.tokens_per_step", "0"),
        (small(decode__block=0), "decode.block", "0"),
        (small(decode__block=4.0), "decode.block", "4.0"),
        (small(parallel__tp=0), "parallel.tp", "0"),
        (small(parallel__tp="two"), "parallel.tp", "'two'"),
        (small(batching__max_batch=-2), "batching.max_batch", "-2"),
        (small(seed=-1), "seed", "-1"),
        (small(seed=0.5), "seed", "0.5"),
        (small(seed=False), "seed", "False"),
        (small(routing={"kind": "zipf", "exponent": NAN}), "routing.exponent", "nan"),
        (small(model=3), "model", "3"),
        (small(model=None), "model", "None"),
        (small(precision={"kv": "fp8_e5m2"}), "precision.kv", "'fp8_e5m2'"),
        (small(precision={"kv": "fp8-e4m3"}), "precision.kv", "'fp8-e4m3'"),
        (small(precision={"weights": "int4"}), "precision.weights", "'int4'"),
    ],
)
def test_wrong_values(document: dict[str, Any], where: str, value: str) -> None:
    """A value of the wrong type or range is told with its field, the rule and itself."""
    refused(document, f"{where}: must be ", f", got {value}\n")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (small(parallel__dp=1025), ["parallel.dp", "less than or equal to 1024", "got 1025"]),
        (small(parallel__tp=3), ["parallel.tp", "must divide the 32 query heads", "got 3"]),
        (small(parallel__tp=16), ["parallel.tp", "all-reduce", "2, 4, 8 GPUs", "got 16"]),
        (small(decode=UNO_TRACE | {"block": 17}), ["decode.block: ", "1 to 16", "got block 17"]),
        (small(decode=UNO_TREE | {"tree_size": 61}), ["decode.tree_size: ", "15 to 60", "size 61"]),
        (small(decode=UNO_TREE | {"tree_size": 3}), ["decode.tree_size: ", "15 to 60", "size 3"]),
        (small(decode__trace="uno-qwen3-8b-t1"), ["decode: give one of", "known traces: "]),
        (small(decode={"policy": "uno-linear"}), ["decode: give one of", "uno-qwen3-8b-t1"]),
        (small(decode=UNO_TRACE | {"trace": "dflash-qwen3-8b-t1"}), ["decode.trace", "of dflash"]),
        (small(decode__tokens_per_step=5.5), ["decode.tokens_per_step", "at most 5", "got 5.5"]),
        (
            small(
                decode={"policy": "uno-tree", "block": 16, "tree_size": 2, "tokens_per_step": 9.0}
            ),
            ["decode.tokens_per_step", "emits at most 4", "got 9.0"],
        ),
        (
            small(decode=BLOCKS | {"tokens_per_forward": 32.5}),
            ["decode.tokens_per_forward", "at most one block of 32", "got 32.5"],
        ),
        (
            small(decode=BLOCKS | {"tokens_per_forward": 1e-9}),
            ["decode.tokens_per_forward", "must be at least", "got 1e-09"],
        ),
        (small(decode=BLOCKS), ["give one of decode.tokens_per_forward and decode.trace"]),
        (small(model="llada2-mini"), ["decode.policy", "uno-linear needs a model with an adapter"]),
        (
            small(
                model="llama-3-8b",
                decode={"policy": "eagle3-linear", "tokens_per_step": 2.0},
            ),
            ["decode.policy", "eagle3-linear", "llama-3-8b lacks it", "no drafter 'eagle3'"],
        ),
        (small(workload__output_tokens=40960), ["workload: ", "41024 tokens", "40960"]),
        (small(decode="ar"), ["decode: a mapping with a policy is needed, got 'ar'"]),
        (small(workload=None), ["workload: a mapping with a kind is needed, got None"]),
        ({"model": "qwen3-8b", "hardware": "h200-sxm"}, ["decode: ", "is needed"]),
        ({"decode": {"policy": "ar"}}, ["model: a required", "hardware: a required"]),
    ],
)
def test_parts_that_do_not_go_together(document: dict[str, Any], words: list[str]) -> None:
    """Choices that no run can have are refused with the fields and what would be right."""
    refused(document, *words)


def test_a_model_that_does_not_fit() -> None:
    """A model larger than the GPU is told with the bytes that it has and would need."""
    decode = BLOCKS | {"tokens_per_forward": 3.0}
    document = small(model="llada2-flash", hardware="h100-sxm", decode=decode)
    refused(document, "model llada2-flash does not fit on h100-sxm", "GB of weights", "72.0 GB")


def test_a_batch_that_does_not_fit() -> None:
    """128 sequences of 9216 tokens do not fit on one H200, and the largest batch that does runs."""
    load = {"concurrency": 128, "prompt_tokens": 1024, "output_tokens": 8192}
    document = small(decode={"policy": "ar"}, workload=load)
    answer = refused(document, "workload.concurrency: does not fit", "128", "h200-sxm")
    largest = int(answer.err.rstrip().rpartition("the largest batch is ")[2])
    assert 64 <= largest <= 127
    document["batching"] = {"max_batch": largest + 1}
    refused(document, f"the largest batch is {largest}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["is empty", "mapping"]),
        ("# nothing\n", ["is empty", "mapping"]),
        ("- model\n- hardware\n", ["holds a list", "mapping"]),
        ("42\n", ["holds 42", "mapping"]),
        ("qwen3-8b\n", ["holds 'qwen3-8b'", "mapping"]),
        ("model: [qwen3-8b,\n", ["line 2, column 1", "not readable as YAML"]),
        ("model: a\n  hardware: b\n", ["line 2", "not readable as YAML"]),
        ("model: a\nhardware: b\nmodel: c\n", ["line 3, column 1", "'model' is given twice"]),
        ("decode: {policy: ar, policy: gwd}\n", ["line 1", "'policy' is given twice"]),
        ("model: &name qwen3-8b\nhardware: *name\n", ["line 1", "anchors and aliases"]),
        ("model: &name qwen3-8b\nhardware: h200-sxm\n", ["line 1", "anchors and aliases"]),
        ("a: " + "[" * 200 + "]" * 200, ["nested more than 40 deep"]),
        ("a: " + "{b: " * 200 + "1" + "}" * 200, ["nested more than 40 deep"]),
        ("- " * 200 + "1", ["nested more than 40 deep"]),
        ("? [a, b]\n: 1\n", ["line 1", "a field name is text"]),
        ("? {a: b}\n: 1\n", ["line 1", "a field name is text"]),
        ("1: 2\n", ["1: a field name is text"]),
        ("model: a\n---\nmodel: b\n", ["line 2", "another document"]),
        ("a: !!python/object/apply:os.getcwd []\n", ["line 1", "constructor"]),
        ("model: \x01\n", ["not readable as YAML"]),
        ("model: 2020-13-45\n", ["not readable as YAML"]),
        ("seed: 0x" + "f" * 5000, ["seed: must be less than 4294967296", "20000 bits"]),
        ("? 0x" + "f" * 5000 + "\n: 1\n", ["20000 bits: a field name is text"]),
        ("seed: " + "9" * 5000, ["not readable as YAML"]),
        ('model: "a\\0/b.yaml"\n', ["model: ", "is not a path"]),
    ],
)
def test_files_that_are_no_scenario(text: str, words: list[str]) -> None:
    """Text that is not one plain YAML mapping is refused with the place where it goes wrong."""
    refused(text, *words)


def fill(path: Path) -> None:
    """Make *path* a file of 50 MB."""
    path.touch()
    os.truncate(path, 50_000_000)


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda _: None, "cannot be read: No such file"),
        (Path.mkdir, "is a folder"),
        (lambda path: path.write_bytes(b"\x80\x02}q\x00."), "is not UTF-8 text"),
        (fill, "got 50.0 MB"),
        (lambda path: path.symlink_to("/dev/zero"), "at most 1 MB"),
    ],
    ids=["missing", "folder", "binary", "50 MB", "endless"],
)
def test_things_that_are_no_file(make: Any, word: str) -> None:
    """What cannot be read as a small text file is refused at once, without reading it all."""
    path = Path("odd.yaml")
    make(path)
    before, start = everything(), time.perf_counter()
    answer = call("run", path, "--out", "result")
    assert time.perf_counter() - start < 2
    check_refused(answer, "odd.yaml", word)
    assert everything() == before


def test_numbers_that_yaml_reads_as_text() -> None:
    """An exponent without a sign is text to YAML 1.1; the message says so and how to write it."""
    text = yaml.safe_dump(small()).replace("tokens_per_step: 3.0", "tokens_per_step: 4.8e12")
    refused(text, "decode.tokens_per_step: '4.8e12' is text to YAML 1.1", "write 4.8e+12")


def test_a_hardware_file_with_a_number_that_is_text() -> None:
    """The same in a user's own hardware profile, with the profile's path and field."""
    shipped = library.HARDWARE.path("h200-sxm").read_text(encoding="utf-8")
    own = shipped.replace("memory_bytes_per_s: 4.8e+12", "memory_bytes_per_s: 4.8e12", 1)
    assert own != shipped
    Path("mine.yaml").write_text(own, encoding="utf-8")
    words = ["hardware: mine.yaml: peaks.memory_bytes_per_s: '4.8e12' is text", "write 4.8e+12"]
    refused(small(hardware="mine.yaml"), *words)
    refused(small(hardware="./mine.yaml"), *words)


@pytest.mark.parametrize("field", ["model", "hardware", "engine"])
@pytest.mark.parametrize("path", ["./nowhere.yaml", "nowhere/", "./"])
def test_a_path_in_place_of_a_name(field: str, path: str) -> None:
    """A path that leads to no file of the kind is told with the field."""
    refused(small(**{field: path}), f"{field}: ")


def test_many_mistakes_are_told_at_once() -> None:
    """Every mistake of every section is in the one message."""
    document = small(
        modle="x",
        model="qwen3-8",
        hardware="h300",
        seed=-1,
        parallel={"tp": True, "dp": 0},
        precision={"kv": "fp4"},
        batching={"mode": "continous", "max_batch": 0},
        decode={"policy": "uno-linear", "block": "4", "trace": 7},
        workload={"concurrency": -3, "outputs": 5},
    )
    fields = ["modle", "model", "hardware", "seed", "parallel.tp", "parallel.dp", "precision.kv"]
    fields += ["batching.max_batch", "decode.block", "decode.trace"]
    fields += ["workload.concurrency", "workload.outputs"]
    answer = refused(document)
    told = [line.strip().partition(":")[0] for line in answer.err.splitlines()[1:]]
    assert sorted(told) == sorted(fields)


def test_long_values_are_cut() -> None:
    """A message stays readable when a value is not."""
    answer = refused(small(model="x" * 100_000, decode__policy="y" * 100_000, seed="z" * 100_000))
    assert len(answer.err) < 2000


@pytest.mark.parametrize(
    "option",
    ["decode.block", "=8", "decode..block=8", ".block=8", "decode.=8", "a." * 2000 + "b=1"],
)
def test_malformed_settings(option: str) -> None:
    """A setting is key=value with a dotted key; the message says so and repeats it."""
    path = written(small())
    answer = call("run", path, "--set", option)
    check_refused(answer, "--set", option[:40], "must be key=value, such as decode.block=8")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("decode.block=[1", ["--set decode.block", "not readable as YAML"]),
        ("decode.block=*a", ["--set decode.block", "anchors and aliases"]),
        ("decode.blok=8", ["decode.blok", "did you mean block"]),
        ("model.name=8", ["model: must be a string, got a mapping"]),
        ("decode.tokens_per_step=4.8e12", ["is text to YAML 1.1", "write 4.8e+12"]),
        ("decode=", ["decode: a mapping with a policy is needed, got None"]),
    ],
)
def test_settings_with_wrong_values(option: str, words: list[str]) -> None:
    """A setting is checked like the field that it sets."""
    check_refused(call("run", written(small()), "--set", option), *words)


@pytest.mark.parametrize(
    ("out", "word"),
    [
        ("there", "exists already"),
        ("file", "exists already"),
        ("file/below", "cannot be written"),
        ("n" * 300, "cannot be written: File name too long"),
    ],
)
def test_results_that_cannot_be_written(out: str, word: str) -> None:
    """A result goes to a new folder or nowhere, and what is there stays as it is."""
    Path("there").mkdir()
    Path("file").write_text("mine", encoding="utf-8")
    path = written(small())
    before = everything()
    check_refused(call("run", path, "--out", out), out, word)
    assert everything() == before


def test_an_existing_folder_is_told_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a simulation whose result has no place."""
    monkeypatch.setattr("simulator.result.simulate", lambda _: pytest.fail("it was simulated"))
    Path("there").mkdir()
    check_refused(call("run", written(small()), "--out", "there"), "exists already")


@pytest.mark.parametrize("target", ["there.svg", "nowhere/figure.svg"])
def test_figures_that_cannot_be_written(target: str) -> None:
    """A figure whose place is a folder, or in none, is an error."""
    Path("there.svg").mkdir()
    path = written(small())
    before = everything()
    check_refused(call("roofline", path, "-o", target), target, "cannot be written")
    assert everything() == before


def test_a_roofline_needs_a_decode_step() -> None:
    """A request that the prefill finishes has no decode pass to show."""
    path = written(small(decode={"policy": "ar"}, workload__output_tokens=1))
    check_refused(call("roofline", path, "-o", "figure.svg"), "workload.output_tokens", "more")
    assert not Path("figure.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["show", "models", "qwen3-8"], ["no model 'qwen3-8'", "did you mean qwen3-8b"]),
        (["show", "policies", "uno"], ["'uno'", "did you mean uno-"]),
        (["show", "traces", "uno"], ["no trace 'uno'", "known: "]),
        (["show", "engines", "./mine.yaml"], ["mine.yaml", "cannot be read"]),
        (["run", "nowhere.yaml"], ["nowhere.yaml", "cannot be read"]),
        (["roofline", "nowhere.yaml"], ["nowhere.yaml", "cannot be read"]),
    ],
)
def test_other_commands(arguments: list[str], words: list[str]) -> None:
    """Every command that takes a name or a file says what is wrong with it."""
    check_refused(call(*arguments), *words)


@pytest.mark.parametrize(
    "arguments",
    [["walk"], ["run"], ["list", "planets"], ["show", "models"], ["validate", "--paper", "nature"]],
)
def test_wrong_usage(arguments: list[str]) -> None:
    """Wrong usage has exit code 2 and says how to get help."""
    answer = call(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert "Usage: " in answer.err


def calibration(lines: list[str], *words: str, options: tuple[object, ...] = ()) -> None:
    """Calibrate on these CSV *lines*; it is refused with the *words*, and nothing is written."""
    Path("points.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    before = everything()
    answer = call("calibrate", "points.csv", "-o", "engine.yaml", *options)
    check_refused(answer, *words)
    assert everything() == before


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], ["points.csv", "a header and at least one row"]),
        ([HEADER], ["points.csv", "a header and at least one row"]),
        ([HEADER.rpartition(",")[0], ROW.rpartition(",")[0]], ["header: no column with", "tpot_s"]),
        ([HEADER + ",tpot_s", ROW + ",0.1"], ["line 2: exactly one of", "got 2"]),
        ([HEADER, ROW, ROW.replace("170", "")], ["line 3: exactly one of", "got 0"]),
        ([HEADER, ROW.replace("170", "fast")], ["line 2: output_tokens_per_s", "got 'fast'"]),
        ([HEADER, ROW.replace("170", "-170")], ["line 2: output_tokens_per_s", "got '-170'"]),
        ([HEADER, ROW.replace("170", "nan")], ["line 2: output_tokens_per_s", "got 'nan'"]),
        ([HEADER, ROW.replace("170", "0")], ["line 2: output_tokens_per_s", "above 0", "'0'"]),
        ([HEADER.replace("concurrency", "concurency"), ROW], ["concurency", "did you mean"]),
        ([HEADER.replace("workload.", "workload..", 1), ROW], ["header: ", "workload.."]),
        (["model," + HEADER, "qwen3-8b," + ROW], ["header: ", "once, got 'model' 2 times"]),
        ([HEADER, ROW + ",9"], ["line 2: has 8 fields, the header 7"]),
        ([HEADER, ROW.replace(",64,", ",-64,")], ["line 2: workload.prompt_tokens", "got -64"]),
        ([HEADER, ROW.replace(",64,", ",[64,")], ["line 2: workload.prompt_tokens", "YAML"]),
        ([HEADER, ROW.replace("qwen3-8b", "qwen"), ROW + ",1"], ["line 2: model", "line 3: has"]),
        ([HEADER, '"' + "x" * 200_000 + '"' + ROW], ["points.csv", "not readable as CSV"]),
        ([HEADER.replace("output_tokens_per_s", "tpot_s"), ROW.replace(",32,", ",1,")], ["tpot_s"]),
    ],
)
def test_points_that_are_wrong(lines: list[str], words: list[str]) -> None:
    """Every mistake in a file of points is told with its line and column, before any run."""
    calibration(lines, *words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fit", "eager_pass_s"), ["--fit eager_pass_s: no point depends on it"]),
        (("--fit", "step_s,logit_s"), ["1 points cannot fix 2 parameters: step_s, logit_s"]),
        (("--fit", "stepp_s"), ["--fit: no overhead 'stepp_s'", "did you mean step_s"]),
        (("--fit", "step_s,step_s"), ["--fit: name each overhead once"]),
        (("--fit", ""), ["--fit: name each overhead once"]),
        (("--engine", "nano-vlm"), ["no engine 'nano-vlm'", "did you mean nano-vllm"]),
    ],
)
def test_fits_that_are_wrong(options: tuple[str, ...], words: list[str]) -> None:
    """A fit needs parameters that exist, enough points for them, and an engine to start from."""
    calibration([HEADER, ROW], *words, options=options)


def test_an_engine_without_published_cells() -> None:
    """Only engines that published cells were kept for can be refitted from them."""
    check_refused(call("calibrate", "--published", "--engine", "vllm", "-o", "e.yaml"), "vllm")
    assert not Path("e.yaml").exists()


@pytest.mark.parametrize("target", ["there", "file/engine.yaml"])
def test_engines_that_cannot_be_written(target: str) -> None:
    """An engine profile whose place cannot be written leaves nothing behind."""
    Path("there").mkdir()
    Path("file").write_text("mine", encoding="utf-8")
    Path("points.csv").write_text(f"{HEADER}\n{ROW}\n", encoding="utf-8")
    before = everything()
    check_refused(call("calibrate", "points.csv", "-o", target), target)
    assert everything() == before


@pytest.mark.parametrize(
    ("document", "word"),
    [
        (small(decode__blok=4), "did you mean block"),
        ("model: [qwen3-8b,\n", "not readable as YAML"),
        ("a: " + "[" * 200 + "]" * 200, "nested more than 40 deep"),
    ],
    ids=["unknown field", "broken", "deep"],
)
def test_the_installed_command(document: Any, word: str) -> None:
    """As a process of its own the command answers the same."""
    path = written(document)
    answer = installed("run", path, "--json", "--out", "result")
    check_refused(answer, str(path), word)
    assert answer == call("run", path, "--json", "--out", "result")
    assert not Path("result").exists()
