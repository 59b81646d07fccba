"""One kernel family per file, each with a plain twin (`naive_...`) that defines its answer."""
