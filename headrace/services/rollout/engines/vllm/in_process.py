"""vLLM's LLMEngine in this process, driven by its own calls: add, step, abort, and an RPC to its workers."""

import importlib
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from headrace.services.rollout.engines.vllm.adapters import WeightsApi
from headrace.services.rollout.engines.vllm.capabilities import Capabilities
from headrace.services.rollout.engines.vllm.llm import Drawn

ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}
"""What vLLM reads of its environment: its core in this process, workers that do not inherit threads, as many
of them as the replica was given, and nothing told to anybody."""
QUIET = {"VLLM_LOGGING_LEVEL": "ERROR"}
"""Kept where the user has set it."""
WITHOUT_GPU = {"TORCH_COMPILE_DISABLE": "1"}
"""Else the sampler's first call waits for a C++ compiler, for 12 s where there is one."""


def prepare(*, gpu: bool) -> None:
    """Sets the environment; to be called before vLLM is imported."""
    os.environ.update(ENVIRONMENT)
    for name, value in (QUIET if gpu else QUIET | WITHOUT_GPU).items():
        os.environ.setdefault(name, value)


class InProcess:
    """An `Llm`; used by one thread at a time."""

    def __init__(self, fields: Mapping[str, Any], weights: WeightsApi, found: Capabilities) -> None:
        """Starts vLLM with `fields` of its EngineArgs; takes many seconds."""
        self._weights = weights
        self._params = importlib.import_module("vllm").SamplingParams
        self._deltas = importlib.import_module("vllm.sampling_params").RequestOutputKind.DELTA
        self._typed = importlib.import_module("vllm.inputs.engine") if found.typed_prompts else None
        arguments = importlib.import_module("vllm.engine.arg_utils").EngineArgs
        engine = importlib.import_module("vllm.v1.engine.llm_engine").LLMEngine
        with _random_state_kept():
            self._engine = engine.from_engine_args(arguments(**fields))

    def submit(self, key: str, prompt_ids: Sequence[int], fields: Mapping[str, Any], salt: str) -> None:
        """See `Llm.submit`."""
        parameters = self._params(**fields, output_kind=self._deltas, flat_logprobs=True)
        self._engine.add_request(key, self._prompt(list(prompt_ids), salt), parameters)

    def step(self) -> list[Drawn]:
        """See `Llm.step`."""
        return [_drawn(output) for output in self._engine.step()]

    def abort(self, keys: Sequence[str]) -> None:
        self._engine.abort_request(list(keys))

    def load(self, version: int, weights: Mapping[str, Any]) -> None:
        """See `Llm.load`."""
        self._weights.load(self._engine, version, weights)

    def forget_prefixes(self) -> None:
        self._engine.reset_prefix_cache()

    def close(self) -> None:
        """Ends the workers and the process groups that they made in this process."""
        self._engine.engine_core.shutdown()
        importlib.import_module("vllm.distributed").cleanup_dist_env_and_memory()

    def _prompt(self, ids: list[int], salt: str) -> Any:
        if self._typed is not None:
            return self._typed.tokens_input(ids, cache_salt=salt)
        return {"prompt_token_ids": ids, "cache_salt": salt}


def _drawn(output: Any) -> Drawn:
    """From a RequestOutput with what is new of its only sample."""
    (sample,) = output.outputs
    return Drawn(
        key=output.request_id,
        token_ids=list(sample.token_ids),
        logprobs=[sample.logprobs[i][token].logprob for i, token in enumerate(sample.token_ids)],
        ended=(sample.finish_reason or "nothing") if output.finished else None,
    )


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """vLLM seeds the whole process as it starts; others in it go on as they were."""
    import torch

    python, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        yield
    random.setstate(python)
    np.random.set_state(numbers)
