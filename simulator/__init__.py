"""The simulator: models, engines, decoding policies, batching, cost and the event loop."""
