# Everything runs in .venv; nothing is installed elsewhere, and nothing is downloaded when a program runs.
PYTHON ?= python3
BIN := .venv/bin
DEMO := MEMORY_CORE_HOME=$(CURDIR)/.demo
# On Linux without a GPU: make test TORCH="torch==2.13.0 --extra-index-url https://download.pytorch.org/whl/cpu"
TORCH ?= torch==2.13.0
TESTS ?= tests

.PHONY: run test check bench notebooks format docs clean

.venv/run: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[workbench]'
	touch $@

.venv/dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet $(TORCH)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@ .venv/run

run: .venv/run
	@$(DEMO) $(BIN)/memory-core demo
	@$(DEMO) $(BIN)/memory-core eval overlap data/fixtures/overlap/*.jsonl --report .demo/reports
	@echo
	@echo "Next: open the report above in a browser; read a dossier with"
	@echo "  MEMORY_CORE_HOME=.demo $(BIN)/memory-core dossier list"
	@echo "and connect an agent with the client configuration above (README, For agents: MCP)."

test: .venv/dev
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest $(TESTS)

check: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --cache-dir .venv/import-linter
	$(BIN)/cog --check README.md ARCHITECTURE.md

notebooks: .venv/dev
	env -u MEMORY_CORE_DATABASE_URL -u MEMORY_CORE_SPACE HF_HUB_OFFLINE=1 MEMORY_CORE_HOME=$$(mktemp -d) \
		$(BIN)/python -m pytest --nbval --nbval-cell-timeout=300 -p no:cacheprovider notebooks

bench: .venv/dev
	HF_HUB_OFFLINE=1 $(BIN)/python tests/bench.py

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: .venv/dev
	$(BIN)/cog -r README.md ARCHITECTURE.md

clean:
	rm -rf .venv .demo
