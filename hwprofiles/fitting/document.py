"""Writes a profile as a YAML document a person can read."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hwprofiles.profile import HardwareProfile

HEADER = """\
# {description}. Made by `{made_by}`; do not edit by hand.
# SI units: seconds, bytes, flop; the last word of a name is its unit. Every curve says in
# `source` what it was fitted to, in `domain` the sizes it was fitted on, and in `residual` the
# relative errors on measurements kept out of the fit.
"""
# The capacities have no `source` of their own.
CAPACITIES = ("memory_bytes:", "last_level_cache_bytes:", "multiprocessors:")


class _Dumper(yaml.SafeDumper):
    """Safe YAML whose floats YAML 1.1 reads back as floats."""


def number(value: float) -> str:
    """*value* in YAML 1.1, as short as reads back equal: with a dot, and a sign in the exponent."""
    if value == 0 or 1e-2 <= abs(value) < 1e6:  # noqa: PLR2004 (plain digits are easier to read)
        return repr(float(value))
    return np.format_float_scientific(value, trim="0", exp_digits=2)


_Dumper.add_representer(
    float, lambda dumper, value: dumper.represent_scalar("tag:yaml.org,2002:float", number(value))
)
_Dumper.add_representer(
    tuple, lambda dumper, value: dumper.represent_sequence("tag:yaml.org,2002:seq", value)
)


def document(
    profile: HardwareProfile,
    made_by: str = "python -m hwprofiles.derive",
    capacities: str = "data sheet, as peaks.source",
) -> str:
    """The YAML text of *profile*, the same for the same numbers, fields in their own order.

    *made_by* is the command that made it, *capacities* where its capacities are from.
    """
    text = yaml.dump(
        _told(dataclasses.asdict(profile)),
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=None,
        width=96,
        allow_unicode=True,
    )
    lines = [
        f"{line}  # {capacities}" if line.startswith(CAPACITIES) else line
        for line in text.splitlines()
    ]
    header = HEADER.format(description=profile.description, made_by=made_by)
    return header + "\n".join(lines) + "\n"


def _told(value: Any) -> Any:  # noqa: ANN401 (a document's values)
    """*value* without what is not known: fields that are None."""
    if isinstance(value, dict):
        return {key: _told(item) for key, item in value.items() if item is not None}
    return value


def write(path: Path, text: str) -> None:
    """Put *text* at *path* at once: a reader sees the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
