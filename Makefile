# `make run` and `make test` set up what they need; the rest is for who works on the program.
SHELL := /bin/sh
.DEFAULT_GOAL := help
ARGS ?=
BIN := .venv/bin
FAKE := build/fake-nvml/libnvidia-ml.so.1

.PHONY: help run test lint format generate check-generated fake-nvml test-e2e test-root test-stalls verdicts test-gpu bench golden lock clean venv-run venv-test venv-deploy

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: venv-run  ## set up and run the daemon; ARGS='--web.listen-address=:9410 ...'
	$(BIN)/gpuwait serve $(ARGS)

test: venv-test fake-nvml  ## set up and run the tests: no root, no GPU, no network
	$(BIN)/pytest -q -m 'not root and not e2e' $(ARGS)

lint: venv-test  ## style, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: venv-test  ## mend what a formatter can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: venv-deploy  ## write what is generated: exporter/METRICS.md, dashboards, parts of the chart, manifests
	$(BIN)/gpuwait metrics --format markdown >exporter/METRICS.md.new
	mv exporter/METRICS.md.new exporter/METRICS.md
	$(BIN)/python -m dashboards.build
	$(BIN)/python deploy/kubernetes/build.py

check-generated: generate  ## fail where a generated file is stale
	git diff --exit-code -- exporter/METRICS.md 'dashboards/*.json' deploy/helm/gpuwait/files deploy/helm/gpuwait/README.md 'deploy/kubernetes/*.yaml'

fake-nvml:  ## build the fake NVML that tests use (needs cc)
	$(MAKE) -s -C tests/fakes/nvml OUT=../../../build/fake-nvml

test-e2e: venv-deploy fake-nvml  ## against the real node_exporter and promtool (Debian: prometheus prometheus-node-exporter)
	$(BIN)/pytest -q -m e2e $(ARGS)

test-root: venv-deploy fake-nvml  ## what needs root
	$(BIN)/pytest -q -m root $(ARGS)

test-stalls: venv-test fake-nvml  ## root: real compaction, reclaim, swap, throttling and disk stalls
	$(BIN)/pytest -q -m root tests/stalls $(ARGS)

verdicts: venv-test fake-nvml  ## root: the matrix of cause provoked against cause named; ARGS='--runs 3'
	$(BIN)/python tests/stalls/verdicts.py $(ARGS)

test-gpu: venv-test  ## on a machine with an NVIDIA GPU: compare with nvidia-smi under load; as root also starve it
	$(BIN)/python tests/real_gpu/check.py || [ $$? -eq 77 ]
	$(BIN)/python tests/real_gpu/starve.py || [ $$? -eq 77 ]

bench: venv-run  ## CPU, memory and latency beside node_exporter; ARGS='--root DIR' for a tree with proc and sys
	$(BIN)/python tests/bench/compare.py $(ARGS)

golden: venv-test fake-nvml  ## rewrite the golden scrapes of tests/hosts; read the diff
	UPDATE_GOLDEN=1 $(BIN)/pytest -q tests/test_hosts.py

lock: venv-test  ## write constraints.txt from what is installed
	$(BIN)/python -m pip freeze --exclude-editable >constraints.txt

clean:  ## remove what was built
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

venv-run:
	@.ci/venv run

venv-test:
	@.ci/venv test

venv-deploy:
	@.ci/venv deploy
