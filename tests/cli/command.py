"""Calls the command line, in this process or the installed one, and scenarios to call it with."""

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator.cli import main
from simulator.scenario import with_settings

INSTALLED = Path(sys.executable).with_name("blockcast")

SMALL: dict[str, Any] = {
    "model": "qwen3-8b",
    "hardware": "h200-sxm",
    "engine": "nano-vllm",
    "decode": {"policy": "uno-linear", "block": 4, "tokens_per_step": 3.0},
    "workload": {"kind": "closed", "concurrency": 2, "prompt_tokens": 64, "output_tokens": 32},
}


@dataclass(frozen=True)
class Answer:
    """What a command did."""

    code: int
    out: str
    err: str


def call(*arguments: object, columns: int = 100) -> Answer:
    """`blockcast ARGUMENTS` in this process; anything that would be a traceback is raised."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["blockcast", *map(str, arguments)])
        patch.setenv("COLUMNS", str(columns))
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as stop:
                code = int(stop.code or 0)
    return Answer(code, out.getvalue(), err.getvalue())


def installed(*arguments: object, **environment: str) -> Answer:
    """The installed `blockcast ARGUMENTS` as a process of its own."""
    done = subprocess.run(
        [str(INSTALLED), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | environment,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def small(**changes: Any) -> dict[str, Any]:
    """The small scenario with fields changed; `decode__block` is decode.block."""
    return with_settings(SMALL, {name.replace("__", "."): value for name, value in changes.items()})


def written(document: Any, folder: Path = Path()) -> Path:
    """A scenario file in *folder* that holds *document*, as it stands when it is text."""
    path = folder / "scenario.yaml"
    text = document if isinstance(document, str) else yaml.safe_dump(document, sort_keys=False)
    path.write_text(text, encoding="utf-8")
    return path
