"""`reload_weights` of vLLM's model runner, through a worker extension: the way on CPUs.

vLLM packs linear layers for a CPU's kernels, so that its plain `load_weights` fails; a reload unpacks them
first and packs them again.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace.services.rollout.engines.vllm.adapters.base import confirm

SHARED = Path("/dev/shm")
EXTENSION = "headrace.services.rollout.engines.vllm.worker.ReloadingWorker"


class Reload:
    """A worker in this process is handed the tensors; ranks in processes of their own map a shared file."""

    def __init__(self, *, ranks: int) -> None:
        self._ranks = ranks

    def engine_fields(self) -> dict[str, Any]:
        return {"worker_extension_cls": EXTENSION}

    def load(self, engine: Any, version: int, weights: Mapping[str, Any]) -> None:
        if self._ranks == 1:
            confirm(engine.collective_rpc("headrace_reload", args=(version, weights)), version)
            return
        from safetensors.torch import save_file

        with tempfile.TemporaryDirectory(
            dir=SHARED if SHARED.is_dir() else None, prefix="headrace-"
        ) as aside:
            path = str(Path(aside) / "weights.safetensors")
            save_file({name: tensor.contiguous() for name, tensor in weights.items()}, path)
            confirm(engine.collective_rpc("headrace_reload_file", args=(version, path)), version)
