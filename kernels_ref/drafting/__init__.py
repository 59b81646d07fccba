"""Drafters: what proposes tokens to a target model, beside it or as adapters on it."""
