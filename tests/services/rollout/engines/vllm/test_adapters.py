"""Which way weights go into vLLM, and what each way asks of it, without vLLM."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open

from headrace.services.errors import ServiceError
from headrace.services.rollout.engines.vllm.adapters import choose
from headrace.services.rollout.engines.vllm.adapters.reload import Reload
from headrace.services.rollout.engines.vllm.adapters.transfer import IpcTransfer, buckets
from headrace.services.rollout.engines.vllm.capabilities import Capabilities
from headrace.services.rollout.engines.vllm.worker import ReloadingWorker


def found(*, gpu: bool = False, transfers: bool = True, reloads: bool = True) -> Capabilities:
    return Capabilities(
        version="0.32.0",
        gpu=gpu,
        transfers_weights=transfers,
        reloads_weights=reloads,
        typed_prompts=True,
    )


class Engine:
    """Two ranks that answer with what they are told to."""

    def __init__(self, answers: list[int]) -> None:
        self.answers = answers
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.read: dict[str, list[float]] = {}

    def collective_rpc(self, method: str, args: tuple[Any, ...]) -> list[int]:
        self.calls.append((method, args))
        if method == "headrace_reload_file":
            with safe_open(args[1], framework="pt") as file:
                self.read = {name: file.get_tensor(name).tolist() for name in file.keys()}  # noqa: SIM118
        return self.answers


def test_a_gpu_takes_the_transfer_api_and_a_cpu_a_reload() -> None:
    assert isinstance(choose(found(gpu=True), ranks=2), IpcTransfer)
    assert isinstance(choose(found(gpu=True, transfers=False), ranks=1), Reload)
    assert isinstance(choose(found(), ranks=1), Reload)


def test_a_vllm_that_can_take_no_weights_is_refused() -> None:
    with pytest.raises(ServiceError, match=r"vLLM 0\.32\.0 can take no new weights while it runs"):
        choose(found(gpu=True, transfers=False, reloads=False), ranks=1)


def test_one_rank_is_handed_the_tensors_and_has_to_confirm() -> None:
    engine, weights = Engine([3]), {"a": torch.zeros(2)}
    Reload(ranks=1).load(engine, 3, weights)
    assert engine.calls == [("headrace_reload", (3, weights))]


def test_several_ranks_read_one_shared_file_that_is_gone_afterwards() -> None:
    engine = Engine([3, 3])
    Reload(ranks=2).load(engine, 3, {"a": torch.tensor([1.0, 2.0])})
    assert engine.read == {"a": [1.0, 2.0]}
    ((method, (version, path)),) = engine.calls
    assert (method, version, Path(path).exists()) == ("headrace_reload_file", 3, False)


def test_a_rank_that_holds_another_version_is_an_error() -> None:
    with pytest.raises(ServiceError, match=r"hold the versions \[3, 2\] after a load of 3"):
        Reload(ranks=1).load(Engine([3, 2]), 3, {})
    with pytest.raises(ServiceError, match=r"hold the versions \[\] after a load of 3"):
        Reload(ranks=1).load(Engine([]), 3, {})


def test_buckets_keep_the_order_and_a_tensor_that_is_too_large_goes_alone() -> None:
    weights = {name: torch.zeros(size) for name, size in {"a": 2, "b": 1, "c": 9, "d": 3}.items()}
    made = [[name for name, _ in bucket] for bucket in buckets(weights, 12)]
    assert made == [["a", "b"], ["c"], ["d"]]


def test_a_tied_layer_is_packed_anew_after_a_reload() -> None:
    packed: list[str] = []

    class Packing:
        def process_weights_after_loading(self, layer: Any) -> None:
            packed.append(layer.name)

    def layer(name: str, weight: torch.nn.Parameter, *, packs: bool) -> torch.nn.Module:
        made: Any = torch.nn.Module()
        made.name, made.weight, made.quant_method = name, weight, Packing()
        if packs:
            made.cpu_linear = len
        return made

    class Runner:
        def __init__(self) -> None:
            shared, own = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
            self.model = torch.nn.ModuleList(
                [
                    layer("embedding", shared, packs=False),
                    layer("own", own, packs=True),
                    layer("head", shared, packs=True),
                ]
            )
            self.read: list[tuple[str, int]] = []

        def reload_weights(self, *, weights_iterator: Any) -> None:
            self.read = list(weights_iterator)

    worker = ReloadingWorker()
    worker.model_runner = Runner()
    assert worker.headrace_reload(5, {"a": 1}) == 5
    assert worker.model_runner.read == [("a", 1)]
    assert packed == ["head"]
