"""Word problems with worked solutions that a program checks: what the reference models learn."""
