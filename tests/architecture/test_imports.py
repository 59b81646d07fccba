"""Who may import what, and other rules that the source and its packaging must keep."""

import ast
import dataclasses
import fnmatch
import importlib
import inspect
import itertools
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml

from simulator import batching, cli, decoding, documents, published, workloads
from simulator.cli.validate import PAPERS

ROOT = Path(__file__).parents[2]
# What each package may import of the others.
MAY_IMPORT = {
    "hwprofiles": set[str](),
    "traces": set[str](),
    "reports": set[str](),
    "simulator": {"hwprofiles", "traces", "reports", "kernels_ref"},
    "kernels_ref": {"hwprofiles", "traces"},
}
PACKAGES = [name for name in MAY_IMPORT if (ROOT / name).is_dir()]
# Libraries that only some packages may import.
ONLY_IN = {"torch": {"kernels_ref"}, "matplotlib": {"reports"}}
FORBIDDEN_CALLS = {"eval", "exec", "full_load", "unsafe_load", "full_load_all", "unsafe_load_all"}
# simpleeval's, of trees that the grammar of constraints has checked; no Python runs.
NOT_PYTHONS_OWN = {("simulator.sweep.constraints", "evaluator.eval")}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module of ours: its dotted name and its file."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


MODULES = dict(modules())


@cache
def tree(module: str) -> ast.Module:
    """The module's syntax tree."""
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def imports(module: str) -> frozenset[str]:
    """Every dotted name that *module* imports, wherever in it, relative ones resolved."""
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} has a relative import"
            source = str(node.module)
            found |= {source} | {f"{source}.{alias.name}" for alias in node.names}
    return frozenset(found)


def tops(module: str) -> set[str]:
    """The top-level packages that *module* imports."""
    return {name.partition(".")[0] for name in imports(module)}


def test_the_packages_are_all_here() -> None:
    """Every folder of Python at the top level has a rule here, or holds no package code."""
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert folders <= set(MAY_IMPORT)
    assert {"hwprofiles", "traces", "simulator", "reports"} <= set(PACKAGES)


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    """The leaves import nothing of ours, reports nothing of the simulator, and so on."""
    package = module.partition(".")[0]
    ours = tops(module) & set(MAY_IMPORT)
    assert ours - {package} <= MAY_IMPORT[package]
    assert "tests" not in tops(module)


@pytest.mark.parametrize("module", MODULES)
def test_only_commands_write_reports_and_run_kernels(module: str) -> None:
    """Of the simulator, only its commands import reports or torch code: the rest returns values."""
    if module.startswith("simulator") and not module.startswith("simulator.cli."):
        assert not tops(module) & {"reports", "kernels_ref"}


@pytest.mark.parametrize("module", MODULES)
def test_commands_start_without_kernels(module: str) -> None:
    """A command imports torch code when it runs, never while it is looked up."""
    if module.startswith("simulator.cli."):
        top_level = [n for n in tree(module).body if isinstance(n, ast.Import | ast.ImportFrom)]
        assert not any("kernels_ref" in ast.unparse(node) for node in top_level)


@pytest.mark.parametrize("module", MODULES)
def test_only_main_imports_the_command_line(module: str) -> None:
    """Nothing but `simulator.__main__` and the commands themselves imports `simulator.cli`."""
    if module != "simulator.__main__" and not module.startswith("simulator.cli"):
        assert not any(name.startswith("simulator.cli") for name in imports(module))


@pytest.mark.parametrize("module", MODULES)
def test_heavy_libraries_stay_in_their_packages(module: str) -> None:
    """Torch is imported by the reference kernels only, matplotlib by reports only."""
    for library, packages in ONLY_IN.items():
        assert library not in tops(module) or module.partition(".")[0] in packages


@pytest.mark.parametrize("module", MODULES)
def test_errors_are_handled_by_name(module: str) -> None:
    """No handler catches everything, and input is never checked by assert."""
    for node in ast.walk(tree(module)):
        assert not isinstance(node, ast.Assert), f"line {node.lineno}"
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"line {node.lineno}"
            caught = {name.id for name in ast.walk(node.type) if isinstance(name, ast.Name)}
            assert not caught & {"Exception", "BaseException"}, f"line {node.lineno}"


@pytest.mark.parametrize("module", MODULES)
def test_nothing_read_can_run_code(module: str) -> None:
    """Files are read as data: no pickle and its kin, no eval, YAML by safe loaders only."""
    assert not tops(module) & FORBIDDEN_MODULES
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            is_forbidden = called.rpartition(".")[2] in FORBIDDEN_CALLS
            assert not is_forbidden or (module, called) in NOT_PYTHONS_OWN, f"line {node.lineno}"
            if called in {"yaml.load", "yaml.load_all"}:
                loaders = [ast.unparse(k.value) for k in node.keywords if k.arg == "Loader"]
                assert (module, loaders) == ("simulator.documents", ["_DocumentLoader"])
    loader: Any = vars(documents)["_DocumentLoader"]
    assert issubclass(loader, yaml.SafeLoader)


@cache
def setuptools() -> dict[str, Any]:
    """The packaging section of pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: dict[str, Any] = settings["tool"]["setuptools"]
    return found


def test_every_package_is_installed() -> None:
    """Every folder with Python in it is among the packages of pyproject.toml, and no other."""
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in MODULES.values()}
    assert folders == set(setuptools()["packages"])
    for folder in folders:
        assert (ROOT / folder.replace(".", "/") / "__init__.py").is_file()


def test_every_data_file_is_installed() -> None:
    """Every file that is no Python matches a pattern of package-data, and every pattern matches."""
    patterns = {
        f"{package.replace('.', '/')}/{pattern}"
        for package, own in setuptools()["package-data"].items()
        for pattern in own
    }
    files = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in {".py", ".pyc"}
    }
    used = {(f, p) for f, p in itertools.product(files, patterns) if fnmatch.fnmatch(f, p)}
    assert {file for file, _ in used} == files
    assert {pattern for _, pattern in used} == patterns


def parameters(function: Any) -> list[str]:
    """The names of a function's parameters."""
    return list(inspect.signature(function).parameters)


def check_schema(schema: Any) -> None:
    """The Parameters of a module are a frozen dataclass that refuses unknown fields."""
    assert dataclasses.fields(schema)
    assert schema.__dataclass_params__.frozen
    assert schema.__pydantic_config__["extra"] == "forbid"


@pytest.mark.parametrize("name", decoding.names())
def test_decoding_policies_have_the_interface(name: str) -> None:
    """A policy has Parameters under its own name, USES, a schedule and a docstring."""
    module = decoding.policy(name)
    check_schema(module.Parameters)
    assert get_args(get_type_hints(module.Parameters)["policy"]) == (name,)
    assert isinstance(module.USES, decoding.Uses)
    assert parameters(module.schedule) == ["request", "parameters", "setting"]
    assert module.__doc__


@pytest.mark.parametrize("name", batching.names())
def test_batching_policies_have_the_interface(name: str) -> None:
    """A batching policy says who joins and who leaves, and why in its docstring."""
    module = batching.batching(name)
    assert parameters(module.admits) == ["live", "max_batch"]
    assert parameters(module.leaves) == ["finished", "live"]
    assert module.__doc__


@pytest.mark.parametrize("name", workloads.names())
def test_workloads_have_the_interface(name: str) -> None:
    """A workload has Parameters under its own kind, drives requests, and has a docstring."""
    module = workloads.workload(name)
    check_schema(module.Parameters)
    assert get_args(get_type_hints(module.Parameters)["kind"]) == (name,)
    assert parameters(module.drive) == ["environment", "parameters", "seed", "submit"]
    for field in ("n_requests", "most_together", "longest_tokens"):
        assert isinstance(inspect.getattr_static(module.Parameters, field), property)
    assert module.__doc__


def commands() -> list[str]:
    """The names of the commands, which are their modules."""
    return [path.stem for path in (ROOT / "simulator/cli").glob("*.py") if path.stem[0] != "_"]


@pytest.mark.parametrize("name", commands())
def test_commands_have_the_interface(name: str) -> None:
    """A command's module has the command, with a help text."""
    module = importlib.import_module(f"{cli.__name__}.{name}")
    assert module.command.help
    assert module.__doc__


def test_validation_offers_every_paper() -> None:
    """The papers that `validate` names are the files that there are."""
    assert sorted(PAPERS) == published.names()


@pytest.mark.parametrize("name", [f"blockcast {c.replace('_', '-')}" for c in commands()])
def test_commands_are_in_the_documentation(name: str) -> None:
    """The README or the design page tells of every command."""
    assert name in documentation()


@pytest.mark.parametrize("name", decoding.names())
def test_policies_are_in_the_documentation(name: str) -> None:
    """The README or the design page tells of every decoding policy."""
    assert f"`{name}`" in documentation()


@cache
def documentation() -> str:
    """The README and the design page."""
    pages = [ROOT / "README.md", ROOT / "docs/design.md"]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)
