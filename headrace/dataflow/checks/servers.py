"""Whether what answers over HTTP can be asked: its address, its key, and what it may generate for."""

import os
from collections.abc import Iterator

from headrace.dataflow.checks.idle import idle
from headrace.dataflow.language.problems import Path, Problem
from headrace.dataflow.language.spec import GraphSpec
from headrace.dataflow.planning.topology import trainer_of
from headrace.services.options import OpenaiOptions, RolloutOptions


def check_servers(spec: GraphSpec) -> Iterator[Problem]:
    """Rollouts by a server of another's."""
    for name, node in spec.nodes.items():
        options, path = node.options, ("nodes", name)
        if not isinstance(options, RolloutOptions):
            continue
        if options.engine != "openai":
            if options.openai is not None:
                why = f"the engine is '{options.engine}'"
                yield idle((*path, "openai"), why, "remove it, or set engine: openai")
        elif options.openai is None:
            yield Problem(
                path=(*path, "openai"),
                wrong="the engine openai asks a server, and none is named",
                way_out="set openai: {base_url: http://127.0.0.1:8000/v1, model: NAME}",
            )
        else:
            yield from check_endpoint(options.openai.base_url, options.openai.api_key_env, (*path, "openai"))
            yield from _logprobs(options.openai, options.temperature, path)
            yield from _untrained(spec, str(node.policy), path)
            if options.over_new_weights != "swap":
                why = "a server keeps its own weights"
                yield idle((*path, "over_new_weights"), why, "remove it")


def check_endpoint(base_url: str, api_key_env: str | None, path: Path) -> Iterator[Problem]:
    """An address that is none, and a key that is not set here."""
    if not base_url.startswith(("http://", "https://")):
        yield Problem(
            path=(*path, "base_url"),
            wrong=f"got '{base_url}', which is no address",
            way_out="write it whole, e.g. http://127.0.0.1:8000/v1",
        )
    if api_key_env is not None and not os.environ.get(api_key_env):
        yield Problem(
            path=(*path, "api_key_env"),
            wrong=f"the environment variable {api_key_env} is not set here",
            way_out="export it where the run is started, or remove api_key_env",
            severity="warning",
        )


def _logprobs(server: OpenaiOptions, temperature: float, path: Path) -> Iterator[Problem]:
    if server.logprobs == "raw" and temperature != 1.0:
        yield Problem(
            path=(*path, "temperature"),
            wrong=f"got {temperature:g}, and the server's log-probabilities are those before the temperature",
            allowed="1",
            way_out="leave it out, or start the server with --logprobs-mode processed_logprobs and set "
            "openai.logprobs: processed",
        )


def _untrained(spec: GraphSpec, policy: str, path: Path) -> Iterator[Problem]:
    if (trainer := trainer_of(spec, policy)) is not None:
        yield Problem(
            path=(*path, "engine"),
            wrong=f"a server keeps its own weights, and '{trainer}' trains '{policy}': its answers would be "
            "of a model that is never trained",
            way_out="set engine: torch, or answer with a policy that nobody trains",
        )
