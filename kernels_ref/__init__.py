"""Reference kernels in torch: what the simulator prices, to be run, checked and timed.

Needs torch, which blockcast itself does not. Imports nothing of the simulator.
"""
