# `make demo`: set-up, then the main job on a real model. `make test`: set-up, then all checks and tests.

PYTHON ?= python3
DATA ?= data
BIN := .venv/bin
SET_UP := .venv/.set-up

.PHONY: demo test fast lint docs benchmarks clean

demo: $(SET_UP)
	$(BIN)/trimtab compress demo out/demo --remove 0.1 --resume --overwrite

test: lint
	$(BIN)/pytest -m "slow or not slow"

fast: $(SET_UP)
	$(BIN)/pytest

lint: $(SET_UP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

docs: $(SET_UP)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[docs]"
	$(BIN)/mkdocs build --strict

benchmarks: $(SET_UP)
	$(BIN)/python -m benchmarks.quality $(DATA)
	$(BIN)/python -m benchmarks.rank_search $(DATA)
	$(BIN)/python -m benchmarks.calibration $(DATA)
	$(BIN)/python -m benchmarks.flra_options $(DATA)

$(SET_UP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("trimtab needs Python 3.11 or newer: make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[test]"
	touch $(SET_UP)

clean:
	rm -rf .venv out build .pytest_cache .ruff_cache .mypy_cache
