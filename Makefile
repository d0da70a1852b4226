# Three commands for a newcomer: `make demo`, `make quick` and `make test`. Everything is installed
# into .venv (the light core, no torch), .venv-quick (the core and its tests) and .venv-test (what
# training and the whole suite need).

PYTHON ?= python3.11
CORE   := .venv/bin
QUICK  := .venv-quick/bin
TEST   := .venv-test/bin
DOCS   := .venv-docs/bin

# Versions and hashes stand in requirements/, of every package: there is nothing to resolve, and
# without --no-deps pip refuses a pinned package as soon as a newer one is out and another package
# asks for it with an extra. tools/supply_chain.py writes the hashes.
INSTALL  := install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/build.txt -r
CHECKOUT := install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .

.PHONY: demo serve quick test check fix bench soak docs lock sbom clean

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
# Two processes side by side, of about the same length: what trains, and all the rest.
HEAVY = train
test: .venv/done check
	mkdir -p build
	$(TEST)/python -m pytest -m "$(HEAVY)" >build/test-heavy.log 2>&1 & heavy=$$!; \
	trap "kill $$heavy" INT TERM; \
	$(TEST)/python -m pytest -m "not ($(HEAVY))"; rest=$$?; \
	wait $$heavy; heavy=$$?; cat build/test-heavy.log; exit $$((rest || heavy))

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

# Half an hour of load, kills, restarts and limits, then damaged files; not part of `make test`.
soak: .venv-test/done
	$(TEST)/python bench/run.py soak --minutes 30
	$(TEST)/python bench/run.py serve_hostile
	$(TEST)/python bench/run.py corpus_kill --kills 400
	$(TEST)/python bench/run.py flips
	$(TEST)/python bench/run.py milvus_kill
	$(TEST)/python bench/run.py ray_kill

# After a version in requirements/ has changed: its hashes, and the table of licences.
lock: .venv-test/done
	$(TEST)/python tools/supply_chain.py lock
	$(TEST)/python tools/supply_chain.py licences

# A CycloneDX list of all packages, with hashes and licences.
sbom: .venv-test/done
	$(TEST)/python tools/supply_chain.py sbom build/sbom.cdx.json

.venv/serve: .venv/done requirements/serve.txt
	$(CORE)/pip $(INSTALL) requirements/serve.txt
	touch $@

.venv/done: pyproject.toml requirements/core.txt
	$(PYTHON) -m venv .venv
	$(CORE)/pip $(INSTALL) requirements/core.txt
	$(CORE)/pip $(CHECKOUT)
	touch $@

.venv-quick/done: pyproject.toml requirements/core.txt requirements/quick.txt
	$(PYTHON) -m venv .venv-quick
	$(QUICK)/pip $(INSTALL) requirements/quick.txt
	$(QUICK)/pip $(CHECKOUT)
	touch $@

# torch goes first, exactly and alone: a range would pull builds for GPUs, which are gigabytes, and
# the build for this machine may come from another place than the others, with another hash.
.venv-test/done: pyproject.toml requirements/test.txt
	$(PYTHON) -m venv .venv-test
	$(TEST)/pip install --quiet --disable-pip-version-check --no-deps torch==2.13.0
	$(TEST)/pip $(INSTALL) requirements/test.txt
	$(TEST)/pip $(CHECKOUT)
	touch $@

.venv-docs/done: requirements/docs.txt
	$(PYTHON) -m venv .venv-docs
	$(DOCS)/pip $(INSTALL) requirements/docs.txt
	touch $@

clean:
	rm -rf .venv .venv-quick .venv-test .venv-docs build dist .pytest_cache .mypy_cache .ruff_cache
