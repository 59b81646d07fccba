"""Closed loop: what a simulator needs of this machine, and what a real decoder then takes on it.

Kernels at exactly the sizes of a model (`points`, `calls`), decoders on an empty model, whose times
are the engine's own (`empty`), and decoders on the real one, with a clock (`clocked`, `rounds`).
"""
