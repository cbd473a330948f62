"""The commands that change a live run; each asks the control API of its launch."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.dataflow.control.asking import LATEST, RunDirectory, Why, control, parts


def scale(
    setting: Annotated[str, typer.Argument(help="NODE=REPLICAS, e.g. answers=4.")],
    run: RunDirectory = LATEST,
    why: Why = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done.")] = False,
) -> None:
    """Add replicas to a service of a live run, or drain its youngest; of a trainer, change its ranks."""
    node, replicas = _setting(setting, "answers=4")
    try:
        number = int(replicas)
    except ValueError:
        raise typer.BadParameter(f"{replicas!r} is no number of replicas") from None
    done = control(run).post(f"/v1/services/{node}/scale", replicas=number, dry_run=dry_run, why=why)
    parts = [f"{label} {', '.join(done[label])}" for label in ("added", "drained", "renewed") if done[label]]
    changed = "; ".join(parts) or "nothing to change"
    typer.echo(f"{'would be: ' * dry_run}{node} {done['before']} -> {done['after']}: {changed}")


def drain(
    replica: Annotated[str, typer.Argument(help="e.g. answers/0")],
    run: RunDirectory = LATEST,
    why: Why = "",
) -> None:
    """End one replica of a live run once it has finished what it holds, or handed it back."""
    node, index = parts(replica)
    done = control(run).post(f"/v1/services/{node}/{index}/drain", why=why)
    typer.echo(f"{node} {done['before']} -> {done['after']}: drained {replica}")


def cancel(
    node: Annotated[str, typer.Argument(help="A service, by the name of its node.")],
    run: RunDirectory = LATEST,
    why: Why = "",
) -> None:
    """End a change of a service that is under way; a scale up and an upgrade are taken back."""
    done = control(run).post(f"/v1/services/{node}/cancel", why=why)
    typer.echo(f"cancelled: {done['cancelled']} of {node}")


def restart(
    node: Annotated[str, typer.Argument(help="A service, by the name of its node.")],
    run: RunDirectory = LATEST,
    why: Why = "",
) -> None:
    """Restart the replicas of a service of a live run, one after another, with nothing lost."""
    done = control(run).post(f"/v1/services/{node}/restart", why=why)
    typer.echo(f"restarted {', '.join(done['restarted'])}")


def set_(
    setting: Annotated[
        str, typer.Argument(help="staleness=VALUE, or POLICY.staleness=VALUE; inf has no bound.")
    ],
    run: RunDirectory = LATEST,
    why: Why = "",
) -> None:
    """Move the staleness knob of a live run, for what is begun from now on."""
    key, value = _setting(setting, "staleness=2")
    policy, _, knob = key.rpartition(".")
    if knob != "staleness":
        raise typer.BadParameter(f"{key!r} cannot be set on a live run; staleness and POLICY.staleness can")
    done = control(run).post("/v1/staleness", staleness=value, policy=policy or None, why=why)
    moved = ", ".join(f"{table} {bound}" for table, bound in done["moved"].items())
    typer.echo(f"staleness: {moved or 'nothing to change'}")


def upgrade(
    node: Annotated[str, typer.Argument(help="A service, by the name of its node.")],
    target: Annotated[str, typer.Argument(help="A YAML file: the run's graph, changed in this node alone.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Values to set, as of `run`.")] = None,
    run: RunDirectory = LATEST,
    why: Why = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say whether it can be done.")] = False,
) -> None:
    """Give a service of a live run other options, one replica at a time."""
    from headrace.dataflow.language.parse import load, to_yaml
    from headrace.dataflow.language.rooted import rooted

    graph = to_yaml(rooted(load(target, overrides or []).spec, Path.cwd()), resolved=True)
    done = control(run).post(f"/v1/services/{node}/upgrade", graph=graph, dry_run=dry_run, why=why)
    typer.echo(f"{'would be ' * dry_run}upgraded: {', '.join(done['replicas'])}")


def pause(run: RunDirectory = LATEST, why: Why = "") -> None:
    """Have a live run stand: each service finishes what it holds, and waits for `headrace resume`."""
    control(run).post("/v1/pause", why=why)
    typer.echo("paused: what is held is finished, and nothing more is handed out")


def unpause(run: Path, why: str) -> bool:
    """Has a paused run go on; False where no launch of it lives."""
    from headrace.dataflow.control.door import Door

    if not Door.is_of_live(run):
        return False
    control(run).post("/v1/resume", why=why)
    typer.echo("resumed")
    return True


def stop(run: RunDirectory = LATEST, why: Why = "") -> None:
    """Have a live run end with a checkpoint, from which `headrace run DIR` goes on."""
    control(run).post("/v1/stop", why=why)
    typer.echo("stopping: what is held goes back to the queue, and a checkpoint is made")


def inject(
    target: Annotated[str, typer.Argument(help="A replica, e.g. answers/0, or queue.")],
    kind: Annotated[str, typer.Argument(help="kill, hang, slow, error, corrupt, full-disk, or lift.")],
    factor: Annotated[float, typer.Option(help="Of slow: so many times the time.")] = 10.0,
    times: Annotated[int, typer.Option(help="Of error: raised so often.")] = 1,
    run: RunDirectory = LATEST,
    why: Why = "",
) -> None:
    """Have something go wrong in a live run whose graph says `drills: true`."""
    node, index = parts(target) if "/" in target else ("", "")
    route = f"/v1/services/{node}/{index}/inject" if node else f"/v1/{target}/inject"
    done = control(run).post(route, kind=kind, factor=factor, times=times, why=why)
    typer.echo(f"{target}: {done['injected']}")


COMMANDS = {
    "scale": scale,
    "drain": drain,
    "cancel": cancel,
    "restart": restart,
    "upgrade": upgrade,
    "set": set_,
    "pause": pause,
    "stop": stop,
    "inject": inject,
}


def _setting(text: str, example: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise typer.BadParameter(f"got {text!r}; write it like {example}")
    return key, value
