"""Reports: plain results in, tables and figures out. Units turn human here and nowhere else."""
