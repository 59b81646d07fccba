"""A scenario file with --set overrides, resolved into a deployment."""

from pathlib import Path

from simulator.deployment import Deployment, build
from simulator.documents import read_mapping
from simulator.scenario import settings_of, with_settings


def deployment_of(path: Path, settings: tuple[str, ...] = ()) -> Deployment:
    """The deployment that *path* describes; raises DocumentError with every mistake."""
    document = with_settings(read_mapping(path), settings_of(settings))
    return build(document, str(path))
