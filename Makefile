# Everything a newcomer needs: make demo, make test. Each makes .venv first if it is not there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check full margins lint bench bench-gpu docs clean

$(VENV)/.base: pyproject.toml src/undula/core/version.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	touch $@

$(VENV)/.test: pyproject.toml src/undula/core/version.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[test,lint]"
	touch $@ $(VENV)/.base

$(VENV)/.docs: pyproject.toml src/undula/core/version.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[docs]"
	touch $@

demo: $(VENV)/.base
	$(BIN)/python examples/demo.py

# everything once, compiled with low optimisation
test: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 tests

# the long studies, as users compile them, with shapes and types checked at every call
check: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --full -m long --jaxtyping-packages=undula,typechecks.check tests

# everything in that way, e.g. before a release (some 90 minutes)
full: $(VENV)/.test
	$(BIN)/python -m pytest -n 2 --full --jaxtyping-packages=undula,typechecks.check tests

# how close every comparison of all tests is to its bound
margins: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m pytest -n 2 --full -p margins tests

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# on a quiet machine; the numbers go to benchmarks/results and into the pages
bench: $(VENV)/.test
	$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[bench]"
	for script in run constraints rods contact gallery first_answer; do $(BIN)/python benchmarks/$$script.py || exit 1; done
	$(BIN)/python benchmarks/report.py

# on a machine with an NVIDIA GPU; needs JAX with CUDA in $(PYTHON), and no installation of undula
bench-gpu:
	PYTHONPATH=src $(PYTHON) benchmarks/gpu_check.py --json benchmarks/results/gpu_check.json
	for script in gpu gpu_gaits gpu_rods gpu_contact "gpu_contact --float32"; do \
	  set -- $$script; PYTHONPATH=src $(PYTHON) benchmarks/$$1.py $$2 || exit 1; done
	PYTHONPATH=src $(PYTHON) benchmarks/report.py

docs: $(VENV)/.docs
	$(BIN)/mkdocs build -q --strict

clean:
	rm -rf $(VENV) site out
