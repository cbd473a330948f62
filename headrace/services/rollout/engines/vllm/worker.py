"""What headrace adds to a worker of vLLM: new weights in place of those that it holds.

vLLM mixes the class into its own worker, in the worker's process; each method is called by name on all ranks.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any


class ReloadingWorker:
    """Answers with the version that the rank holds once all of it is in."""

    model_runner: Any
    finish_weight_update: Callable[[], None]
    """Of vLLM's own worker."""

    def headrace_finish(self, version: int) -> int:
        """Ends a session of vLLM's weight-transfer API."""
        self.finish_weight_update()
        return version

    def headrace_reload(self, version: int, weights: Mapping[str, Any]) -> int:
        """`weights` by Hugging Face name, whole: the rank keeps its own part."""
        reload(self.model_runner, weights.items())
        return version

    def headrace_reload_file(self, version: int, path: str) -> int:
        """The same from a safetensors file, of which every rank maps what it needs."""
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            reload(self.model_runner, ((name, file.get_tensor(name)) for name in file.keys()))  # noqa: SIM118
        return version


def reload(runner: Any, named: Iterable[tuple[str, Any]]) -> None:
    """`runner`: a GPUModelRunner of vLLM, or its kin for CPUs."""
    runner.reload_weights(weights_iterator=iter(named))
    pack_tied(runner.model)


def pack_tied(model: Any) -> None:
    """Packs anew what shares its weight with another layer: a reload packs only the one that it fills, and a
    CPU's output head would go on with its packed copy of the old embedding."""
    sharing: defaultdict[int, list[Any]] = defaultdict(list)
    for layer in model.modules():
        if getattr(layer, "weight", None) is not None:
            sharing[id(layer.weight)].append(layer)
    for layers in sharing.values():
        for layer in layers if len(layers) > 1 else ():
            if hasattr(layer, "cpu_linear"):
                layer.quant_method.process_weights_after_loading(layer)
