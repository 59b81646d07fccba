"""A plan's folder on disk: the answer as JSON, and a scenario file for every row."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from simulator.result_folder import whole_folder


def write_plan(answer: Mapping[str, Any], folder: Path) -> None:
    """Write *answer* into a new *folder*: plan.json, and scenarios/RANK.yaml to run.

    The folder appears whole or not at all; raises DocumentError when it cannot.
    """
    with whole_folder(folder) as draft:
        text = json.dumps(answer, indent=2, allow_nan=False)
        (draft / "plan.json").write_text(text + "\n", encoding="utf-8")
        (draft / "scenarios").mkdir()
        for rank, row in enumerate(answer["rows"], start=1):
            if row["is_met"]:
                head = f"# {' '.join(row['name'].split())}\n"
                scenario = yaml.safe_dump(row["scenario"], sort_keys=False, allow_unicode=True)
                path = draft / "scenarios" / f"{rank}.yaml"
                path.write_text(head + scenario, encoding="utf-8")
