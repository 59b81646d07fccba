"""`python -m simulator` and the `blockcast` command."""

from simulator.cli import main

if __name__ == "__main__":
    main()
