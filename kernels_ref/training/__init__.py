"""Training of the reference models from generated problems."""
