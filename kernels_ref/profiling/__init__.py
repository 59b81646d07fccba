"""Times the reference kernels on the machine it runs on, for a hardware profile to be fitted."""
