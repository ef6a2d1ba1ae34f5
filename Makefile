# `make run` opens the window, `make test` runs the tests; both set up .venv first, once.
# With GPU=cuda they take PyTorch's large build for NVIDIA's cards.

VENV := .venv
BIN := $(VENV)/bin
# The first Python that really runs; the set-up itself looks for a newer one where it has to.
PYTHON := $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null && echo "$$p" && break; done)
SHARE := $(or $(XDG_DATA_HOME),$(HOME)/.local/share)
BOOTSTRAP = @test -n "$(PYTHON)" || { \
	echo "Duotail needs Python 3.11 or newer: https://www.python.org/downloads/" >&2; exit 1; }; \
	"$(PYTHON)" packaging/bootstrap.py --gpu "$(GPU)"

# Three processes: on two cores, one computes while another waits for a window or a process. The
# tests of a file stay together. A process that crashes ends the run: its tests, given to another
# one, would be waited for without end. What is compiled is kept, whatever the environment says: else
# each process that a test starts compiles everything anew.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadfile --max-worker-restart 0

.DEFAULT_GOAL := help
.PHONY: help setup run desktop test test-all sanitize fuzz release bench-peer gpu-check lint format texts clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

setup: ## Set up .venv without starting anything
	$(BOOTSTRAP)

run: ## Set up what is missing and open the window
	$(BOOTSTRAP) --screen
	@$(BIN)/duotail $(ARGS)

desktop: ## Linux: add Duotail to the applications, and to "Open with" of GGUF files
	$(BOOTSTRAP) --screen
	@install -Dm644 packaging/linux/duotail-mime.xml "$(SHARE)/mime/packages/duotail.xml"
	@mkdir -p "$(SHARE)/applications" "$(SHARE)/icons/hicolor/scalable/apps"
	@sed 's/currentColor/#0d7480/g' app/theme/icons/duotail.svg \
		> "$(SHARE)/icons/hicolor/scalable/apps/duotail.svg"
	@sed 's|^Exec=duotail|Exec="$(CURDIR)/$(BIN)/duotail"|' packaging/linux/duotail.desktop \
		> "$(SHARE)/applications/duotail.desktop"
	-@update-mime-database "$(SHARE)/mime" && update-desktop-database "$(SHARE)/applications"

test: ## Run the tests of every day; options for pytest in ARGS, as in ARGS="-k theme"
	$(BOOTSTRAP) --dev
	@$(PYTEST) $(ARGS)

test-all: ## Run all tests, as before a release
	$(BOOTSTRAP) --dev
	@$(PYTEST) --release $(ARGS)

sanitize: ## Run the kernels' tests with sanitizers for addresses, undefined behaviour, threads
	$(BOOTSTRAP) --dev
	@$(BIN)/python packaging/sanitize.py

fuzz: ## Fuzz what takes files and texts of strangers: eight hours; ARGS="gguf --seconds 600" for less
	$(BOOTSTRAP) --dev
	@$(BIN)/python tests/fuzz/fuzz.py $(or $(ARGS),all)

release: ## Build and check all that a release consists of into dist: wheels, packages, sums, notes
	$(BOOTSTRAP) --dev
	@$(BIN)/python packaging/release.py

bench-peer: ## Compare with llama.cpp, which is built first, once (some minutes)
	$(BOOTSTRAP)
	@$(BIN)/python packaging/peer.py
	@for shape in qwen2.5-0.5b qwen2.5-1.5b; do for kind in decode verify prefill; do \
	echo "== $$kind, $$shape" >&2; \
	$(BIN)/duotail bench $$kind --shape $$shape --peer llama.cpp $(ARGS) || exit 1; done; done

gpu-check: ## Check a real graphics card: correctness, speed, memory (8 minutes); options in ARGS
	$(BOOTSTRAP) --dev
	@$(BIN)/python packaging/gpu_check.py $(ARGS)

lint: ## Check style, types and the arrows between the parts
	$(BOOTSTRAP) --dev
	@failed=0; for check in "ruff check" "ruff format --check" mypy lint-imports; do \
	$(BIN)/$$check || failed=1; done; exit $$failed

format: ## Format the code and mend what can be mended by machine
	$(BOOTSTRAP) --dev
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

texts: ## Collect the texts to translate and compile the translations
	$(BOOTSTRAP) --dev
	@$(BIN)/python packaging/texts.py

clean: ## Remove .venv and everything else that was built, but for wheels in dist
	rm -rf $(VENV) .setup.lock .venv-peer .venv-release .fuzz build engine/_native* *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find app engine resources packaging tests -name __pycache__ -prune -exec rm -rf {} +
