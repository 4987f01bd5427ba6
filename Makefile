# One target for each thing that a developer does with this repository. It needs python3 and make;
# with a C compiler the server is quicker. Everything else is installed into .venv.

PYTHON ?= python3
BIND   ?= 127.0.0.1
PORT   ?= 6379
DB     ?= ./holdfast.db
BIN    := .venv/bin
STAMP  := .venv/.installed
BUILT  := .venv/.built
SOURCE := $(sort $(shell find src -name '*.py' -o -name '*.lua' -o -name '*.sql' -o -name '*.c' -o -name '*.pyi'))
ifdef PURE
# make test PURE=1: the server runs from src, and nothing is compiled.
export PYTHONPATH := $(CURDIR)/src
BUILT  := $(STAMP)
endif
# One worker more than there are cores, because many tests wait; but at most 8: each starts
# redis-servers of its own.
export PYTEST_XDIST_AUTO_NUM_WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := $(BIN)/pytest -q -n auto --maxprocesses 8 --dist worksteal
COMPILED := $(BIN)/python -c 'from holdfast.server.version import IS_COMPILED; exit(not IS_COMPILED)'
# The tests that import compiled modules; most other tests use a server.
INNER  := $(addprefix tests/,commands crdt model psync replication scripting server store) $(wildcard tests/test_resp_*.py tests/test_xxh3.py)

.PHONY: install serve test test-compiled lint format bench bench-active-active bench-active-active-million bench-builds bench-client bench-cold bench-dashboard bench-fairness bench-fold bench-install bench-lives bench-memory bench-pytest bench-replication bench-scripts bench-semaphore bench-start profile faults soak redis-suite docs site release clean

install: $(BUILT)
	@:

$(STAMP): pyproject.toml scripts/dev-versions.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Holdfast needs Python 3.11 or newer; name one with: make PYTHON=python3.x" >&2; exit 1; }
	@test -x $(BIN)/pip || $(PYTHON) -m venv .venv >/dev/null 2>&1 \
	  || { echo "$(PYTHON) -m venv does not work here; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "building .venv, once: this takes a minute"
	@HOLDFAST_PURE=1 $(BIN)/pip install -qq --disable-pip-version-check -c scripts/dev-versions.txt '.[dev]'
	@scripts/install-valkey $(BIN)/pip
	@touch $@

# Lists the source files. It changes only when a file is added or deleted: make does not see that
# a file is gone.
.venv/.files: $(STAMP) FORCE
	@echo $(SOURCE) | cmp -s - $@ || echo $(SOURCE) >$@
FORCE:

.venv/.built: $(STAMP) pyproject.toml setup.py MANIFEST.in docs/holdfast.1 scripts/build-wheel $(SOURCE) .venv/.files
	@echo "building a wheel of src, compiled if possible: up to two minutes"
	@mkdir -p build
	@scripts/build-wheel $(BIN)/python >build/install.log 2>&1 || { tail -n 30 build/install.log >&2; exit 1; }
	@$(BIN)/pip install -qq --disable-pip-version-check --no-deps --force-reinstall build/wheel/*.whl
	@$(COMPILED) \
	  || echo "not compiled, so slower: $$($(BIN)/python -c 'from holdfast.server.version import why_not_compiled; print(why_not_compiled())');" \
	  "'make clean install' tries again" >&2
	@touch $@

serve: install
	@exec $(BIN)/holdfast serve --bind $(BIND) --port $(PORT) --db $(DB)

# Redis's own tests, where they are: make redis-suite ARGS="debug --units tracking,pause"
redis-suite: install
	@scripts/install-oracle tcl tclsh
	@$(BIN)/python -m scripts.redis_suite $(ARGS)

# Arguments for pytest: make test ARGS="tests/store -k journal"
test: install $(if $(ARGS),,test-compiled)
	@scripts/install-oracle
	@scripts/install-libraries
	@scripts/install-monitors
	@scripts/install-browser
	@$(if $(ARGS),,! $(COMPILED) || export TESTED_COMPILED=1; )$(PYTEST) $(ARGS)

# The other tests import src. These import the installed package, if that is compiled.
test-compiled: install
	@scripts/install-oracle
	@! $(COMPILED) || $(PYTEST) -o pythonpath=. -m 'not slow and not source_only' $(or $(ARGS),$(INNER))

lint: install
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy $(wildcard src tests bench scripts examples)
	@$(BIN)/lint-imports --no-logo

format: install
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

# Holdfast beside redis-server, in one run: make bench ARGS="--only SET,GET --policy always"
bench: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.compare $(ARGS)

# The fair semaphore on both servers, in round trips: make bench-semaphore ARGS="--policy always"
bench-semaphore: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.semaphore $(ARGS)

# The cost of a call from Lua, and the wait of other clients while a script overruns.
bench-scripts: install
	@$(BIN)/python -m bench.scripts $(ARGS)

# The wait of a PING while another client floods the server: make bench-fairness ARGS="--rounds 5"
bench-fairness: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.fairness $(ARGS)

# What open dashboards cost a server, and large pages: make bench-dashboard ARGS="--only search"
bench-dashboard: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.dashboard $(ARGS)

# The cost of tables that follow the journal by age: make bench-fold ARGS="--rounds 5"
bench-fold: install
	@$(BIN)/python -m bench.fold $(ARGS)

# The wait of a PING while another client touches a cold collection: make bench-cold ARGS="--maxmemory 20mb"
bench-cold: install
	@$(BIN)/python -m bench.cold $(ARGS)

# Sessions, jobs, waits beside new keys, a start after SIGKILL: make bench-lives ARGS="--only tail"
# (the session store of ten minutes: ARGS="--only sessions --seconds 600 --sessions 10000000 --ttl 450")
bench-lives: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.lives $(ARGS)

# Replication of Redis, in both roles: make bench-replication ARGS="--only snapshot --share 0.1"
bench-replication: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.replication $(ARGS)

# How long until the first PONG: make bench-start ARGS="--rounds 21"
bench-start: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.start $(ARGS)

# From a clone, and from a wheel, to the first PONG, in empty environments; and the wheel's size.
bench-install: install
	@$(BIN)/python -m bench.install $(ARGS)

# A suite of tests on fakeredis, on our fixtures, and on a redis-server for each test.
bench-pytest: install
	@scripts/install-oracle
	@test -x build/bench-pytest/bin/python || $(PYTHON) -m venv build/bench-pytest
	@build/bench-pytest/bin/pip install -qq --disable-pip-version-check \
	  $(or $(wildcard build/wheel/*.whl),.) pytest hypothesis redis 'fakeredis[lua]'
	@$(BIN)/python -m bench.pytest_servers --python build/bench-pytest/bin/python $(ARGS)

bench-memory: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.memory $(ARGS)

# The functions that take the server's time: make profile ARGS="SET --pipeline 16"
profile: install
	@$(BIN)/python -m bench.profile_server $(ARGS)

# Our client and others from PyPI. Those are installed into a separate environment, because no test
# may import them by accident.
bench-client: install
	@scripts/install-oracle
	@test -x build/bench-client/bin/python || $(PYTHON) -m venv build/bench-client
	@HOLDFAST_PURE=1 build/bench-client/bin/pip install -qq --disable-pip-version-check \
	  . redis hiredis coredis valkey-glide
	@$(BIN)/python bench/client.py --python build/bench-client/bin/python $(ARGS)

# The cost of sharing a database between servers: make bench-active-active ARGS="--policy always"
bench-active-active: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.active_active $(ARGS)

# Active-active servers with a million keys: make bench-active-active-million ARGS="--only join"
bench-active-active-million: install
	@$(BIN)/python -m bench.active_active_million $(ARGS)

# The build queue on both servers: make bench-builds ARGS="--policy everysec --rounds 5"
bench-builds: install
	@scripts/install-oracle
	@$(BIN)/python -m bench.builds $(ARGS)

# The long versions of the crash tests, of the tests of clients whose servers come and go, and of
# the dashboard in a browser.
faults: export HOLDFAST_SEED := $(or $(HOLDFAST_SEED),new)
faults: install
	@scripts/install-oracle
	@scripts/install-libraries
	@scripts/install-browser
	@$(PYTEST) -m slow $(ARGS)

# Minutes of mixed load, then a check of all data: make soak ARGS="--minutes 30 --kills"
soak: install
	@$(BIN)/python -m bench.soak $(ARGS)

# The references that are generated from the code, and the plots from the stored benchmark results.
docs: install
	@$(BIN)/python scripts/generate_docs.py
	@$(BIN)/python scripts/generate_api.py
	@$(BIN)/python scripts/generate_diagrams.py
	@$(BIN)/python scripts/generate_decisions.py
	@$(BIN)/python scripts/generate_metrics.py
	@$(BIN)/python scripts/generate_dashboard.py
	@$(BIN)/python scripts/generate_client.py
	@$(BIN)/python -m scripts.generate_man
	@$(BIN)/python -m bench.plot

# docs/ as a site in build/site. A broken link fails it. (Not with --quiet: mkdocs counts only
# the warnings that it prints.) mkdocs has a separate environment, because no test may import it.
site: build/site-venv/.installed
	@scripts/install-mermaid
	@NO_MKDOCS_2_WARNING=1 build/site-venv/bin/mkdocs build --strict $(ARGS)
	@! grep -rnoE '<(script|link|img)[^>]* (src|href)="?https?:[^>]*' build/site --include '*.html' \
	  || { echo "a page loads something from elsewhere" >&2; exit 1; }

# The files of a release in dist, checked and tried out; nothing is uploaded.
release: install build/release-venv/.installed
	@$(BIN)/python -m scripts.release

# An environment for one extra of pyproject.toml, without Holdfast itself.
build/site-venv/.installed: EXTRA := docs
build/release-venv/.installed: EXTRA := release
build/%-venv/.installed: pyproject.toml
	@$(PYTHON) -m venv $(@D)
	@$(PYTHON) -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$(EXTRA)"], sep="\n")' \
	  >$(@D)/requirements.txt
	@$(@D)/bin/pip install -qq --disable-pip-version-check -r $(@D)/requirements.txt
	@touch $@

# Deletes everything that make has written, and never a database file.
clean:
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +
	@find src -name '*.so' -delete # setup.py build_ext --inplace, or pip install --editable
	@rm -rf src/*.egg-info
