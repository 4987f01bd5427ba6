# Everything a person does with this repository, one word each. Assumes python3 and make, and is
# quicker with a compiler; all the rest goes into .venv.

PYTHON ?= python3
BIND   ?= 127.0.0.1
PORT   ?= 6379
DB     ?= ./holdfast.db
BIN    := .venv/bin
STAMP  := .venv/.installed
BUILT  := .venv/.built
SOURCE := $(sort $(shell find src -name '*.py' -o -name '*.lua' -o -name '*.sql' -o -name '*.c'))
ifdef PURE
# make test PURE=1: what is in src as it is, nothing compiled.
export PYTHONPATH := $(CURDIR)/src
BUILT  := $(STAMP)
endif
# One worker per core, but no more redis-servers at once than a laptop likes.
PYTEST := $(BIN)/pytest -q -n auto --maxprocesses 8 --dist worksteal
COMPILED := $(BIN)/python -c 'from holdfast.server.version import IS_COMPILED; exit(not IS_COMPILED)'
# Tests of what is compiled that import it, for the most part.
INNER  := $(addprefix tests/,commands crdt model replication scripting server store) $(wildcard tests/test_resp_*.py)

.PHONY: install serve test test-compiled lint format bench bench-active-active bench-builds bench-client bench-fairness bench-memory bench-scripts bench-semaphore profile faults soak docs clean

install: $(BUILT)
	@:

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Holdfast needs Python 3.11 or newer; name one with: make PYTHON=python3.x" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv >/dev/null 2>&1 \
	  || { echo "$(PYTHON) -m venv does not work here; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "building .venv, once: this takes a minute"
	@HOLDFAST_PURE=1 $(BIN)/pip install -qq --disable-pip-version-check '.[dev]'
	@scripts/install-valkey $(BIN)/pip
	@touch $@

# Written only when a file has come or gone: one that is gone is newer than nothing.
.venv/.files: $(STAMP) FORCE
	@echo $(SOURCE) | cmp -s - $@ || echo $(SOURCE) >$@
FORCE:

.venv/.built: $(STAMP) setup.py $(SOURCE) .venv/.files
	@echo "installing what is in src, compiled if possible: up to two minutes"
	@find build/lib build/lib.* -type f ! -name '*.so' -delete 2>/dev/null || true # files that are no more
	@mkdir -p build
	@$(BIN)/pip install -v --disable-pip-version-check --no-deps --no-build-isolation --force-reinstall . \
	  >build/install.log 2>&1 || { tail -n 30 build/install.log >&2; exit 1; }
	@$(COMPILED) \
	  || echo "not compiled, so slower: this needs a C compiler and the headers of Python (python3-dev);" \
	  "why is in build/install.log, and 'make clean install' tries again" >&2
	@touch $@

serve: install
	@exec $(BIN)/holdfast serve --bind $(BIND) --port $(PORT) --db $(DB)

# Arguments for pytest: make test ARGS="tests/store -k journal"
test: install $(if $(ARGS),,test-compiled)
	@scripts/install-oracle
	@scripts/install-libraries
	@$(PYTEST) $(ARGS)

# Tests import src as it is. Here some import what is installed, if that is compiled.
test-compiled: install
	@scripts/install-oracle
	@! $(COMPILED) || $(PYTEST) -o pythonpath=. -m 'not slow and not source_only' $(or $(ARGS),$(INNER))

lint: install
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy $(wildcard src tests bench)
	@$(BIN)/lint-imports --no-logo

format: install
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# Us and redis-server side by side, in one run: make bench ARGS="--only SET,GET --policy always"
bench: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.compare $(ARGS)

# The fair semaphore on both servers, in round trips: make bench-semaphore ARGS="--policy always"
bench-semaphore: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.semaphore $(ARGS)

# What a call from Lua costs, and how long others wait while a script overruns.
bench-scripts: install
	@$(BIN)/python -m bench.scripts $(ARGS)

# How long a PING waits beside another client's flood: make bench-fairness ARGS="--rounds 5"
bench-fairness: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.fairness $(ARGS)

bench-memory: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.memory $(ARGS)

# Where the server's time goes: make profile ARGS="SET --pipeline 16"
profile: install
	@$(BIN)/python -m bench.profile_server $(ARGS)

# Our client and others from PyPI, which live in a .venv of their own so that no test sees them.
bench-client: install
	@scripts/install-oracle
	@test -x build/bench-client/bin/python || $(PYTHON) -m venv build/bench-client
	@HOLDFAST_PURE=1 build/bench-client/bin/pip install -qq --disable-pip-version-check \
	  . redis hiredis coredis valkey-glide
	@$(BIN)/python bench/client.py --python build/bench-client/bin/python $(ARGS)

# What it costs to share a database: make bench-active-active ARGS="--policy always"
bench-active-active: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.active_active $(ARGS)

# The build queue on both servers: make bench-builds ARGS="--policy everysec --rounds 5"
bench-builds: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.builds $(ARGS)

# The long version of the crash tests, and the client's minutes in chaos.
faults: install
	@$(PYTEST) tests/faults tests/model tests/store tests/builds tests/client tests/semaphore tests/replication -m slow $(ARGS)

# Minutes of mixed load, and then the books must balance: make soak ARGS="--minutes 30 --kills"
soak: install
	@$(BIN)/python -m bench.soak $(ARGS)

# The references that are generated from the code.
docs: install
	@$(BIN)/python scripts/generate_docs.py
	@$(BIN)/python scripts/generate_client.py

# Never touches a database file.
clean:
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@find src -name '*.so' -delete # setup.py build_ext --inplace, or pip install --editable
	@rm -rf src/*.egg-info
