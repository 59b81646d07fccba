"""Capture: decoders run over prompts, and what they did becomes a trace directory."""
