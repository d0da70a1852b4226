# Three commands for a newcomer: `make demo`, `make quick` and `make test`. Everything is installed
# into .venv (the light core, no torch), .venv-quick (the core and its tests) and .venv-test (what
# training and the whole suite need).

PYTHON ?= python3.11
CORE   := .venv/bin
QUICK  := .venv-quick/bin
TEST   := .venv-test/bin
DOCS   := .venv-docs/bin

.PHONY: demo serve quick test check fix bench docs clean

demo: .venv/done
	$(CORE)/python examples/demo.py

# The server and its page, with the samples that ship: http://127.0.0.1:8010/
serve: .venv/serve
	$(CORE)/malmoi serve

# What needs no torch, server, browser, Ray or Milvus, in less than a minute. Two processes of one
# thread each beat one process of two threads.
quick: .venv-quick/done
	OPENBLAS_NUM_THREADS=1 $(QUICK)/python -m pytest -n 2 --doctest-ignore-import-errors \
	  -m "not slow and not train and not server and not browser and not cluster"

# The suite runs in .venv-test; .venv is made too, because some tests prove that malmoi works
# where torch is not installed.
test: .venv/done check
	$(TEST)/python -m pytest

check: .venv-test/done
	$(TEST)/ruff check .
	$(TEST)/ruff format --check .
	$(TEST)/mypy

fix: .venv-test/done
	$(TEST)/ruff check --fix .
	$(TEST)/ruff format .

bench: .venv-test/done
	$(TEST)/python bench/run.py speed
	$(TEST)/python bench/run.py start
	$(TEST)/python bench/run.py memory

# The documentation site, in Korean and English: open build/site/index.html. Warnings are errors.
docs: .venv-docs/done
	NO_MKDOCS_2_WARNING=1 $(DOCS)/mkdocs build --strict --quiet

.venv/serve: .venv/done requirements/serve.txt
	$(CORE)/pip install --quiet --disable-pip-version-check -r requirements/serve.txt
	touch $@

.venv/done: pyproject.toml requirements/core.txt
	$(PYTHON) -m venv .venv
	$(CORE)/pip install --quiet --disable-pip-version-check -r requirements/core.txt
	$(CORE)/pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

.venv-quick/done: pyproject.toml requirements/core.txt requirements/quick.txt
	$(PYTHON) -m venv .venv-quick
	$(QUICK)/pip install --quiet --disable-pip-version-check -r requirements/quick.txt
	$(QUICK)/pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

# torch goes first and exactly: a range would pull builds for GPUs, which are gigabytes.
.venv-test/done: pyproject.toml requirements/test.txt
	$(PYTHON) -m venv .venv-test
	$(TEST)/pip install --quiet --disable-pip-version-check torch==2.13.0
	$(TEST)/pip install --quiet --disable-pip-version-check -r requirements/test.txt
	$(TEST)/pip install --quiet --disable-pip-version-check --no-deps -e .
	touch $@

.venv-docs/done: requirements/docs.txt
	$(PYTHON) -m venv .venv-docs
	$(DOCS)/pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	touch $@

clean:
	rm -rf .venv .venv-quick .venv-test .venv-docs build dist .pytest_cache .mypy_cache .ruff_cache
