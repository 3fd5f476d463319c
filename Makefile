# Two commands set a fresh machine up: `make demo` and `make test`. Each makes its own .venv.
PYTHON ?= python3
BIN := .venv/bin
# What is imported is compiled then, once, and kept; most of the packages' files never are.
unexport PYTHONDONTWRITEBYTECODE
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt

.PHONY: demo test suite check format docs clean

demo: .venv/installed
	$(BIN)/electra demo

test: .venv/installed-dev
	$(MAKE) --jobs 2 check suite

suite: .venv/installed-dev
	$(BIN)/python -m pytest --numprocesses auto

check: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/installed-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/installed-dev
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/figures.py
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --conf-dir docs . site
	@echo "the site: site/index.html"

clean:
	rm -rf .venv site .mypy_cache .ruff_cache .pytest_cache

# The interpreter's own pip may be old: 23.2 takes twice as much time for this as 26.3.
.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "electra needs Python 3.11 or newer; set PYTHON=python3.x")'
	$(PYTHON) -m venv .venv
	$(PIP) pip

.venv/installed: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable .
	touch $@

.venv/installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) --editable '.[dev]'
	touch $@ .venv/installed
