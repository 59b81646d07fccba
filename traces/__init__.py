"""Decoding traces: what a real decoder did, and the published statistics that stand in for one."""

from pathlib import Path
from typing import Final

DATA: Final = Path(__file__).parent / "data"
"""The traces that come with the package: one folder each, named as the trace."""
MANIFEST_FILE: Final = "manifest.yaml"
"""The file in a trace's folder that says what the trace is."""
