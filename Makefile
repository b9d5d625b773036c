# Everything a newcomer needs. Each target makes the environment it needs; nothing but Python 3.11+ and pip is assumed.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: setup demo test test-fast check format clean

setup: .venv/ready

demo: .venv/ready
	$(BIN)/openjepa demo

test: .venv/ready-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

# Under a minute on two cores: everything but what is marked slow, for use while you work.
test-fast: .venv/ready-test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m 'not slow' --numprocesses auto --maxprocesses 4 --dist loadfile

check: .venv/ready-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: .venv/ready-dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# site/index.html; --strict: a broken link, anchor or API name fails
.PHONY: docs
docs: .venv/ready-docs
	$(BIN)/zensical build --clean --strict

clean:
	rm -rf .venv site .cache

.venv/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "OpenJEPA needs Python 3.11 or newer; try make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	touch $@

# torch goes first and by itself: pip then finds 2.13.0 in place and does not look for a newer, larger build.
.venv/ready: .venv/python pyproject.toml constraints.txt
	$(INSTALL) "$$(grep '^torch==' constraints.txt)"
	$(INSTALL) --editable .
	touch $@

.venv/ready-test: .venv/ready
	$(INSTALL) --editable '.[test]'
	touch $@

.venv/ready-dev: .venv/ready-test
	$(INSTALL) --editable '.[dev]'
	touch $@

.venv/ready-docs: .venv/ready
	$(INSTALL) --editable '.[docs]'
	touch $@
