"""The command line: `headrace init | run | check | plan | draw | keys | schema | report | compare | trace
| export | queue | doctor`, and, of a live run, `ps | top | logs | dashboard`, `scale | drain | restart |
upgrade | cancel | set | pause | resume | stop | inject`.

Exit codes: 0 the command did what was asked, 1 the run failed, 2 refused before anything started,
130 interrupted. Whatever takes time to import is imported by the command that needs it.
"""

import json
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace import __version__
from headrace.dataflow.control.asking import LATEST, RunDirectory, Why
from headrace.dataflow.control.commands import COMMANDS, unpause
from headrace.dataflow.control.door import AskRefused
from headrace.dataflow.control.looking import COMMANDS as LOOKS
from headrace.dataflow.doctor.command import COMMANDS as DOCTOR
from headrace.dataflow.language.problems import GraphError, Problem, errors
from headrace.dataflow.language.start import StartError
from headrace.dataflow.record.commands import COMMANDS as RECORD_COMMANDS
from headrace.dataflow.record.rundir import RunDirError

if TYPE_CHECKING:
    from headrace.dataflow.language.parse import Document

REFUSED, INTERRUPTED = 2, 130

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Post-train language models with a dataflow of services; one number, staleness, sets how far "
    "generation runs ahead of learning.",
)


class RuntimeChoice(Enum):
    ray = "ray"
    local = "local"


class Format(Enum):
    text = "text"
    mermaid = "mermaid"
    svg = "svg"


FORMATS = {".svg": Format.svg, ".mmd": Format.mermaid}
"""What the name of a file says of its format."""


Target = Annotated[
    str, typer.Argument(help="A YAML file, a shipped name (grpo_copy_cpu), or a run directory.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(help="Values to set, e.g. staleness=2 learn.prompts_per_step=16 actor.optimizer.lr=1e-4."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.command()
def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("dataflow.yaml"),
    shipped: Annotated[
        str | None, typer.Option("--from", help="A shipped dataflow to copy, as it stands.")
    ] = None,
    with_schema: Annotated[
        bool, typer.Option("--schema", help="Write its JSON Schema beside it, for editors.")
    ] = False,
) -> None:
    """Write a commented dataflow to start from."""
    from headrace.dataflow.language.start import write_start

    for made in write_start(file, shipped=shipped, with_schema=with_schema):
        typer.echo(f"wrote {made}")
    typer.echo(f"next: headrace check {file}")


@app.command()
def run(
    target: Target,
    overrides: Overrides = None,
    output: Annotated[
        Path | None, typer.Option(help="The run's directory; by default runs/NAME/START-TIME.")
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the run in --output, or with the newest of this name."),
    ] = False,
    runtime: Annotated[RuntimeChoice | None, typer.Option(help="Same as runtime=...")] = None,
) -> None:
    """Check a dataflow and run it; a run directory as TARGET goes on where it stopped."""
    extra = [f"runtime={runtime.value}"] if runtime else []
    document = _checked(target, [*(overrides or []), *extra])
    directory = _resumed(target, document.spec.name, output, resume)
    from headrace.dataflow.running.launch import launch

    try:
        code = launch(document.spec, output=None if directory else output, resume=directory)
    except KeyboardInterrupt:
        code = INTERRUPTED
    raise typer.Exit(code)


@app.command()
def resume(
    directory: Annotated[Path | None, typer.Argument(metavar="[RUN]", help="The run's directory.")] = None,
    run_directory: RunDirectory = LATEST,
    why: Why = "",
) -> None:
    """Go on with a run that is paused, or, from its newest checkpoint, with one that has ended."""
    found = directory or run_directory
    if not unpause(found, why):
        run(str(found))


@app.command()
def check(target: Target, overrides: Overrides = None) -> None:
    """Say everything that is wrong with a dataflow, without starting anything."""
    document = _checked(target, overrides)
    spec = document.spec
    typer.echo(
        f"{document.places.file}: ready to run: {len(spec.nodes)} nodes, {len(spec.policies)} "
        f"{'policy' if len(spec.policies) == 1 else 'policies'}, {spec.steps} steps"
    )


@app.command()
def plan(target: Target, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Say what would run where, the arithmetic of a step and the learning rates."""
    document = _checked(target, overrides)
    from headrace.dataflow.planning.plan import plan as make_plan
    from headrace.dataflow.planning.ray_cluster import cluster_of

    made = make_plan(document.spec, cluster_of(document.spec)[0])
    if as_json:
        typer.echo(json.dumps(made.to_json(), indent=2))
        return
    from rich.console import Console

    from headrace.dataflow.planning.plan_text import render

    Console().print(render(made))


@app.command()
def k8s(
    target: Target,
    image: Annotated[str, typer.Option(help="Image with headrace and what the services need.")],
    claim: Annotated[str, typer.Option(help="Volume claim that many nodes may write to, for runs.")],
    overrides: Overrides = None,
) -> None:
    """Print a ConfigMap and a RayJob that run a dataflow on Kubernetes with KubeRay."""
    from headrace.dataflow.check import check
    from headrace.dataflow.language.parse import dump, load
    from headrace.dataflow.planning.kuberay import manifest

    document = load(target, overrides or [])
    if problems := errors(check(document.spec)):
        raise GraphError(document.places.locate(problems))
    typer.echo(
        "---\n".join(dump(each) for each in manifest(document.spec, image=image, claim=claim)), nl=False
    )


@app.command()
def draw(
    target: Target,
    overrides: Overrides = None,
    format: Annotated[
        Format | None,
        typer.Option(help="Text for the terminal, a Mermaid chart or an SVG; by default as --output ends."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write it into this file.")] = None,
) -> None:
    """Draw a dataflow."""
    from headrace.dataflow.check import check_structure
    from headrace.dataflow.language.parse import load
    from headrace.dataflow.planning.draw import draw_mermaid, draw_text
    from headrace.dataflow.planning.drawing.svg import draw_svg

    document = load(target, overrides or [])
    if problems := errors(check_structure(document.spec)):
        raise GraphError(document.places.locate(problems))
    drawn = {Format.text: draw_text, Format.mermaid: draw_mermaid, Format.svg: draw_svg}
    named = FORMATS.get(output.suffix, Format.text) if output is not None else Format.text
    text = drawn[format or named](document.spec).rstrip("\n")
    if output is None:
        typer.echo(text)
    else:
        output.write_text(f"{text}\n", encoding="utf-8")
        typer.echo(output)


@app.command()
def keys(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="graph, include, policy, or a kind of node (or the path of yours); without it, all."
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="The whole reference, as docs/reference.md has it.")
    ] = False,
) -> None:
    """List the keys of a dataflow with their types, defaults and meaning."""
    if markdown:
        from headrace.dataflow.language.reference import reference

        typer.echo(reference(), nl=False)
        return
    from headrace.dataflow.language.keys_text import SECTIONS, describe
    from headrace.dataflow.language.problems import listing, suggestion
    from headrace.dataflow.language.tree import is_kind

    problems: list[Problem] = []
    if kind is not None and kind not in SECTIONS and not is_kind(kind, (), problems):
        way_out = suggestion(kind, SECTIONS, otherwise="name one of these, or path/to/file.py:Class")
        unknown = f"there are no keys of '{kind}' (allowed: {listing(SECTIONS)}); {way_out}"
        typer.echo("\n".join(map(str, problems)) or unknown, err=True)
        raise typer.Exit(REFUSED)
    typer.echo("\n\n".join(describe(section) for section in ([kind] if kind else SECTIONS)))


@app.command()
def schema(
    output: Annotated[Path | None, typer.Option(help="Write it into this file.")] = None,
) -> None:
    """Print the JSON Schema of a dataflow's YAML, with which editors complete and check it."""
    from headrace.dataflow.language.schema import schema_text

    if output is None:
        typer.echo(schema_text(), nl=False)
    else:
        output.write_text(schema_text(), encoding="utf-8")
        typer.echo(output)


@app.command()
def report(
    directory: Annotated[Path, typer.Argument(help="A run directory.")] = Path("runs/latest"),
    as_json: AsJson = False,
) -> None:
    """Sum a run up: write its report.html, or print its figures as JSON."""
    from headrace.dataflow.record.report import write_html
    from headrace.dataflow.record.summary import summary

    if as_json:
        typer.echo(json.dumps(summary(directory)))
    else:
        typer.echo(write_html(directory))


@app.command()
def export(
    directory: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    folder: Annotated[Path, typer.Argument(help="The folder to make.")],
    policy: Annotated[str | None, typer.Option(help="Which, where several are trained.")] = None,
    step: Annotated[int | None, typer.Option(help="Of the checkpoint; by default the newest.")] = None,
) -> None:
    """Write a policy as a model folder that `from_pretrained` opens: weights, tokenizer, chat template."""
    from headrace.dataflow.record.export import ExportError
    from headrace.dataflow.record.export import export as write_model

    try:
        made = write_model(directory, folder, policy=policy, step=step)
    except ExportError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(REFUSED) from error
    for each in made.skipped:
        typer.echo(f"skipped {each.path}: {each.reason}", err=True)
    typer.echo(f"{made.folder}: {made.policy} of step {made.step}")


@app.command()
def queue(
    directory: Annotated[
        Path, typer.Argument(help="A run directory, or a queue directory of one, dead or live.")
    ] = Path("runs/latest"),
    as_json: AsJson = False,
    export: Annotated[
        Path | None, typer.Option(help="Write archived rows as one Parquet file per table into this folder.")
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=DIR: where another node's storage unit keeps archived cells; NAME= for nulls."
        ),
    ] = None,
) -> None:
    """Look into a durable queue: rows by state, leases, and quarantined rows with their errors."""
    from headrace.dataflow.queue_text import queue_directory, render
    from headrace.transferqueue.disk.archive import export as write_files
    from headrace.transferqueue.disk.look import look
    from headrace.transferqueue.errors import JournalError, PayloadError

    try:
        found = look(queue_directory(directory))
        nodes = {
            name: Path(place) if place else None
            for name, _, place in (each.partition("=") for each in node or ())
        }
        files = [] if export is None else write_files(queue_directory(directory), export, nodes=nodes)
    except (JournalError, PayloadError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(REFUSED) from error
    if as_json:
        typer.echo(json.dumps(found.to_json()))
        return
    from rich.console import Console

    Console().print(render(found))
    for file in files:
        typer.echo(file)


for name, command in {**RECORD_COMMANDS, **LOOKS, **COMMANDS, **DOCTOR}.items():
    app.command(name)(command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit code; what a user did wrong is told in plain text."""
    try:
        app(args=arguments)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except (GraphError, RunDirError, StartError, AskRefused) as error:
        print(error, file=sys.stderr)
        return REFUSED
    return 0


def _checked(target: str, overrides: Sequence[str] | None) -> "Document":
    """The parsed graph; warnings are printed, errors raised."""
    from headrace.dataflow.check import check_here
    from headrace.dataflow.language.parse import load

    document = load(target, overrides or [])
    problems = document.places.locate(check_here(document.spec))
    if errors(problems):
        raise GraphError(problems)
    for problem in problems:
        typer.echo(str(problem), err=True)
    return document


def _resumed(target: str, name: str, output: Path | None, resume: bool) -> Path | None:
    """The run directory to go on with; None for a new run."""
    if Path(target).is_dir():
        if output is not None:
            raise RunDirError(f"{target} goes on in itself, got --output {output}; leave --output out")
        return Path(target)
    if not resume:
        return None
    if output is not None:
        return output
    runs = sorted(path.parent for path in Path("runs", name).glob("*/graph.yaml"))
    if not runs:
        raise RunDirError(
            f"there is no run of '{name}' in {Path('runs', name)} to go on with; leave --resume out"
        )
    return runs[-1]


if __name__ == "__main__":
    sys.exit(main())
