"""Whether rows can be dropped, shaped and kept as a graph says, and functions take what they are called with.

A function in a file is read and not run: it is the user's, and may be slow to import.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath

from headrace.algorithms.by_path import Place, name_of
from headrace.dataflow.language.problems import Path, Problem, listing, suggestion
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.topology import leased_table, members, upstream
from headrace.services.columns import NUMBERS
from headrace.services.options import RowFilterOptions, SinkOptions, TransformOptions

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def check_rows(spec: GraphSpec) -> Iterator[Problem]:
    for name, node in spec.nodes.items():
        path = ("nodes", name)
        match node.options:
            case TransformOptions():
                yield from _transform(node.options, path)
                yield from _function(node.options, path)
            case RowFilterOptions():
                yield from _beside_trainers(spec, name)
                yield from _function(node.options, path)
            case SinkOptions():
                yield from _named(node.options, path)
    yield from _folders(spec)


def _transform(options: TransformOptions, path: Path) -> Iterator[Problem]:
    if not options.writes:
        yield Problem(
            path=(*path, "writes"),
            wrong="a transform that writes nothing",
            way_out="name what its function returns with its type, e.g. {reward: float64}",
        )


def _beside_trainers(spec: GraphSpec, name: str) -> Iterator[Problem]:
    """A trainer that does not wait for the filter would race with it for its rows."""
    for trainer in members(spec, str(leased_table(spec, name)), "trainer"):
        if name not in upstream(spec, trainer):
            yield Problem(
                path=("nodes", trainer, "inputs"),
                wrong=f"'{name}' drops rows of the same table, and {trainer} does not read from it: it may "
                "have trained on them before",
                way_out=f"add '{name}' to the inputs",
            )


def _named(options: SinkOptions, path: Path) -> Iterator[Problem]:
    for column in options.columns:
        if column in NUMBERS:
            yield Problem(
                path=(*path, "columns"),
                wrong=f"'{column}' is a number of the row, which is kept in any case",
                way_out="remove it; a column of that name needs another one",
            )
        elif options.columns.count(column) > 1:
            yield Problem(
                path=(*path, "columns"), wrong=f"'{column}' stands twice", way_out="name each one once"
            )
            return


def _folders(spec: GraphSpec) -> Iterator[Problem]:
    first: dict[FilePath, str] = {}
    for name, node in spec.of_kind("sink").items():
        if node.options.directory is None:
            continue
        other = first.setdefault(FilePath(node.options.directory).absolute(), name)
        if other != name:
            yield Problem(
                path=("nodes", name, "directory"),
                wrong=f"{other} keeps its rows in '{node.options.directory}' too",
                way_out="give each a folder of its own, or leave it out",
            )


def _function(options: TransformOptions | RowFilterOptions, path: Path) -> Iterator[Problem]:
    file = Place("function").file(options.function)
    if file is None or not FilePath(file).is_file():
        return
    at, name = (*path, "function"), name_of(options.function)
    try:
        body = ast.parse(FilePath(file).read_text(encoding="utf-8")).body
    except (SyntaxError, ValueError) as error:
        yield Problem(path=at, wrong=f"{file} is no Python: {error}", way_out="mend the file")
        return
    defined = {each.name: each for each in body if isinstance(each, _Function)}
    if name in defined:
        yield from _called(defined[name], options.columns, at)
    elif not any({name, "*"} & _bound(each) for each in body):
        yield Problem(
            path=at,
            wrong=f"{file} has no function '{name}'",
            allowed=listing(defined),
            way_out=suggestion(name, defined, otherwise="name one that it has"),
        )


def _bound(statement: ast.stmt) -> set[str]:
    """Names that a statement of a module may give a value."""
    if isinstance(statement, ast.ClassDef | _Function):
        return {statement.name}
    nodes = list(ast.walk(statement))
    imported = {node.asname or node.name for node in nodes if isinstance(node, ast.alias)}
    return imported | {node.id for node in nodes if isinstance(node, ast.Name)}


def _called(function: _Function, columns: Sequence[str], path: Path) -> Iterator[Problem]:
    """Whether a function takes the columns as keywords, and asks for nothing else."""
    if isinstance(function, ast.AsyncFunctionDef):
        yield Problem(path=path, wrong=f"{function.name} is async", way_out="write it as a plain function")
        return
    given, arguments = set(columns), function.args
    taken = [argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)]
    defaults = len(arguments.defaults)
    required = [a.arg for a in arguments.args[: len(arguments.args) - defaults]]
    required += [
        a.arg
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is None
    ]
    lacking = [name for name in required if name not in given]
    refused = [] if arguments.kwarg else [name for name in columns if name not in taken]
    if lacking or refused:
        asks = f"{function.name} takes {listing(taken)}"
        yield Problem(
            path=path,
            wrong=f"{asks}, and is called with {listing(columns)}",
            way_out=f"make `columns` and its arguments the same: {_difference(lacking, refused)}",
        )


def _difference(lacking: Sequence[str], refused: Sequence[str]) -> str:
    parts = [f"{listing(lacking)} is not given"] if lacking else []
    return " and ".join([*parts, *([f"{listing(refused)} is not taken"] if refused else [])])
