#!/usr/bin/env bash
# Tries every GPU path on one card: see docs/gpus.md. `--device cpu` rehearses the same without one.
# The environment is $HEADRACE_PYTHON's, else .venv-gpu where there is a card, else .venv; each is made if absent.
set -euo pipefail
cd "$(dirname "$0")/.."

has_card() { compgen -G "/dev/nvidia[0-9]*" > /dev/null; }
rehearses() { [[ " $* " == *" cpu "* || " $* " == *"=cpu "* ]]; }

python="${HEADRACE_PYTHON:-}"
if [[ -z "$python" ]]; then
    if has_card && ! rehearses "$@"; then venv=.venv-gpu; else venv=.venv; fi
    make --silent "$venv/.ready"
    python="$venv/bin/python"
fi
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
exec "$python" -m bench.gpu_check "$@"
