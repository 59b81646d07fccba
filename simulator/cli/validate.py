"""`blockcast validate`: predictions against published results."""

import click

PAPERS = ("flowblock", "mbd", "served", "uno")


@click.command()
@click.option("--paper", "papers", multiple=True, type=click.Choice(PAPERS), help="Only this one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="Processes; as many as cores if absent."
)
def command(papers: tuple[str, ...], *, as_json: bool, workers: int | None) -> None:
    """Predict every published throughput and latency cell and compare."""
    import json
    import os

    from reports.text import print_validation
    from simulator.progress import bar
    from simulator.validate import predict, published_cases, report

    work = published_cases(papers)
    with bar("predicting", len(work)) as advance:
        answer = report(predict(work, workers=workers or os.cpu_count() or 1, advance=advance))
    if as_json:
        click.echo(json.dumps(answer, indent=2, allow_nan=False))
    else:
        print_validation(answer)
