"""What decoders stand on: a model that answers queries, rows of tokens, batches, the record."""
