"""`blockcast replay`: a captured trace again, under other parameters, without any hardware."""

from pathlib import Path

import click


@click.command()
@click.argument("trace", metavar="DIR|NAME")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Replay under another policy, window, gate, buffer, block or batch.",
)
@click.option("--exact", is_flag=True, help="Refuse what would be counterfactual.")
@click.option(
    "--steps", type=click.Path(path_type=Path), help="Write every forward to a new FILE.parquet."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(
    trace: str, settings: tuple[str, ...], steps: Path | None, *, exact: bool, as_json: bool
) -> None:
    """Schedule the requests of a captured trace again: the folder DIR, or a shipped NAME.

    Without settings every forward is the captured one. With them the policy's state machine runs
    over the recorded blocks or iterations, and the answer is counterfactual.
    """
    import json

    from reports.replay import print_replay
    from simulator.replay.replayed import check_exact, check_new_table, replayed, write_steps
    from simulator.scenario import settings_of

    if steps is not None:
        check_new_table(steps)
    answer = replayed(trace, settings_of(settings))
    if exact:
        check_exact(answer)
    if steps is not None:
        write_steps(answer, steps)
    if as_json:
        click.echo(json.dumps(answer.document(), indent=2, allow_nan=False))
    else:
        print_replay(trace, answer.document())
