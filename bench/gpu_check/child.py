"""One path, in this process: `python -m bench.gpu_check.child DEVICE RESULT CALL [PACKAGE ...]`.

The result is a JSON file: `verdict`, `reason` and `figures`.
"""

import importlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path as File
from typing import Any

from bench.gpu_check.path import Skip


def main(device: str, result: str, call: str, *needs: str) -> None:
    File(result).write_text(json.dumps(tried(device, call, needs)))


def tried(device: str, call: str, needs: Sequence[str]) -> dict[str, Any]:
    """What a path comes to."""
    try:
        _check_needs(device, needs)
        module, _, function = call.partition(":")
        figures = dict(getattr(importlib.import_module(module), function)(1.0 if device == "cuda" else 0.0))
    except Skip as skip:
        return {"verdict": "SKIP", "reason": str(skip), "figures": {}}
    except Exception as error:
        traceback.print_exception(error)
        reason = f"{type(error).__name__}: {error}".split("\n")[0]
        return {"verdict": "FAIL", "reason": reason, "figures": {}}
    return {"verdict": "PASS", "reason": _told(figures), "figures": figures}


def _check_needs(device: str, needs: Sequence[str]) -> None:
    """Raises Skip where a package or the card is not here."""
    for package in needs:
        if importlib.util.find_spec(package.split(".")[0]) is None or not importlib.util.find_spec(package):
            raise Skip(f"{package} is not installed")
    if device != "cuda":
        return
    import torch

    if not torch.cuda.is_available():
        raise Skip(f"torch {torch.__version__} sees no GPU")


def _told(figures: dict[str, float]) -> str:
    return ", ".join(f"{name} {value:.3g}" for name, value in figures.items())


if __name__ == "__main__":
    main(*sys.argv[1:])
