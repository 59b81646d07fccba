"""The figure of a hardware profile as plain numbers: every curve, and the points on them."""

from hwprofiles import HardwareProfile
from simulator.hardware_view.all_reduce import all_reduce_panels
from simulator.hardware_view.attention import extend_panels, prefill_panels
from simulator.hardware_view.dense import bandwidth_panels, roofline_panels
from simulator.hardware_view.experts import expert_panels
from simulator.hardware_view.measured import MeasuredPoints
from simulator.hardware_view.panel import Panel
from simulator.hardware_view.streaming import streaming_panels

PANELS = (
    roofline_panels,
    bandwidth_panels,
    extend_panels,
    prefill_panels,
    expert_panels,
    streaming_panels,
    all_reduce_panels,
)


def hardware_panels(profile: HardwareProfile, points: MeasuredPoints) -> list[Panel]:
    """A panel for every kernel of *profile*, and data type where one panel cannot hold them."""
    return [panel for family in PANELS for panel in family(profile, points)]
