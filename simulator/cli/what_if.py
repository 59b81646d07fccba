"""`blockcast what-if`: questions that people ask, answered by a table of runs."""

import click


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
@click.option(
    "--workers", type=click.IntRange(min=1), help="Processes; as many as cores if absent."
)
def command(name: str | None, *, as_json: bool, workers: int | None) -> None:
    """Answer the question NAME, or the one in a YAML file; without a name, list the questions.

    Every cell of the table is a run. The best of a row is told with its margin over the next one
    and with what its steps spend their time on.
    """
    import json
    import os

    from reports.what_if import print_questions, print_what_if, with_words
    from simulator.library import WHAT_IFS
    from simulator.progress import bar

    if name is None:
        questions = {each: str(WHAT_IFS.get(each).question) for each in WHAT_IFS.names()}
        if as_json:
            listed = [{"name": each, "question": told} for each, told in questions.items()]
            click.echo(json.dumps(listed, indent=2))
        else:
            print_questions(questions)
        return
    from simulator.what_if import answer

    what_if = WHAT_IFS.get(name)
    with bar("simulating", len(what_if.scenarios())) as advance:
        found = answer(what_if, workers=workers or os.cpu_count() or 1, advance=advance)
    told = with_words(found)
    if as_json:
        click.echo(json.dumps(told, indent=2, allow_nan=False))
    else:
        print_what_if(told)
