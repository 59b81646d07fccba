"""The names of the traces that come with the package, by what they record."""

import yaml

import traces


def _records(name: str) -> str:
    text = (traces.DATA / name / traces.MANIFEST_FILE).read_text(encoding="utf-8")
    return str(yaml.safe_load(text).get("records", "acceptance"))


_NAMES = sorted(path.parent.name for path in traces.DATA.glob(f"*/{traces.MANIFEST_FILE}"))
ACCEPTANCE = [name for name in _NAMES if _records(name) == "acceptance"]
BLOCKS = [name for name in _NAMES if _records(name) == "blocks"]
