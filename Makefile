SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.kvmath-setup
HOST ?= 127.0.0.1
PORT ?= 8000
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup run test pytest lint format openapi reference truth bench soak fuzz lock clean

help: ## this list
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## virtual environment with everything locked in requirements/

# Without dependency resolution: the lock is complete, and every file is checked by its hash.
$(STAMP): requirements/dev.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq --no-deps --require-hashes -r requirements/dev.lock
	$(BIN)/python -m pip install -qq --no-deps --no-build-isolation --editable .
	@touch $@

run: setup ## serve on HOST:PORT (127.0.0.1:8000)
	HOST=$(HOST) PORT=$(PORT) $(BIN)/python -m app

test: lint pytest ## everything that must hold before a change lands

pytest: setup
	$(BIN)/python -m pytest -n auto

lint: setup ## style, types, import contract, container and Kubernetes files, committed OpenAPI
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile
	$(BIN)/check-jsonschema --builtin-schema vendor.compose-spec docker-compose.yml
	$(BIN)/kubernetes-validate --strict --quiet docs/deploy/*.yaml
	$(BIN)/check-jsonschema --schemafile app/catalog/gpu_catalog.schema.json gpu_catalog.json
	$(BIN)/python -m app.openapi --check openapi/openapi.json
	$(BIN)/python -m app.render.reference --check README.md

format: setup ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: setup ## write openapi/openapi.json
	$(BIN)/python -m app.openapi --write openapi/openapi.json

reference: setup ## write the quick reference table into README.md
	$(BIN)/python -m app.render.reference --write README.md

truth: setup ## our figures against ../shared/truth, by family; writes docs/accuracy.md
	$(BIN)/python -m tests.truth.report

bench: setup ## requests per second and latency against two floors, in one run
	$(BIN)/python -m tests.perf.bench

soak: setup ## SOAK_SECONDS (300) of mixed traffic while the hub flaps and Valkey is killed
	$(BIN)/python -m tests.perf.soak

fuzz: setup ## FUZZ_CASES (100,000) mutated configs: an answer or a reason, never a crash
	$(BIN)/python -m tests.perf.fuzz

lock: setup ## resolve requirements/ anew from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml $(LOCK_OPTIONS) -o requirements/runtime.lock
	$(BIN)/uv pip compile pyproject.toml $(LOCK_OPTIONS) --group dev \
		-c requirements/runtime.lock -o requirements/dev.lock

LOCK_OPTIONS := --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-annotate --no-header

clean: ## forget the virtual environment and the caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
