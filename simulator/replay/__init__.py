"""Replay: what a captured trace would have done under other windows, gates, buffers and batches."""
