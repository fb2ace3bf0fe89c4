# `make audit` and `make test` are all a new user needs; both set up .venv on first use.
VENV   ?= .venv
PYTHON ?= python3
READY  := $(VENV)/.ready
NODE   := build/node
INSPECT := build/inspect
LIGHTEVAL := build/lighteval
VLLM := build/vllm

# Compiled modules are kept, whatever the environment says: a process that imports torch starts in half of the time.
export PYTHONDONTWRITEBYTECODE =

# make setup TORCH_INDEX=https://download.pytorch.org/whl/cpu: torch without CUDA, which is gigabytes smaller on Linux.
TORCH_INDEX ?=

.PHONY: setup audit test test-pythons test-oldest test-inspect test-lighteval test-vllm test-spaces test-ray docs bench soak truth lint quick types release-check clean

setup: $(READY)

$(READY): pyproject.toml setup.py constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing swapbias and its libraries into $(VENV): this takes some minutes, once."
	@if test -n "$(TORCH_INDEX)"; then $(VENV)/bin/python -m pip install --no-compile --constraint constraints.txt --index-url $(TORCH_INDEX) torch; fi
	$(VENV)/bin/python -m pip install --no-compile --constraint constraints.txt --editable '.[models,chat,clinical,explain,train,dev,docs]'
	touch $@

audit: $(READY)
	$(VENV)/bin/swapbias audit

test: $(READY) $(NODE)/.ready
	$(VENV)/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

# Corpora and measures as `pip install swapbias` has them, without what audits need: on each other interpreter that is
# at hand (on the path, by pyenv or by uv; what is not is named, and nothing is fetched for it).
PYTHONS  ?= 3.12 3.13 3.14
CORE      = tests/measures tests/studies tests/cli/test_without_extras.py swapbias/measures swapbias/studies
CORE_ENV  = evaluate hypothesis pytest pytest-xdist scikit-learn statsmodels
# Processes of a test run; 0 where several test runs go on at once, so that each collects and imports once.
WORKERS  ?= auto
# Simulations are left out: the same numpy code on every interpreter. What nobody imports is not compiled either.
TEST_CORE = -m pytest --numprocesses $(WORKERS) --maxprocesses 8 --dist worksteal -m "not simulation" $(CORE)
PIP       = $(VENV)/bin/python -m pip --disable-pip-version-check
# Several installations may run at once, so that what each does would be mixed; errors are shown.
PUT       = install --quiet --no-compile

# The checkout as a wheel of links to it, built once: two installations that build in one checkout disturb each other.
LINKS    := build/links
$(LINKS)/.ready: $(READY)
	@rm -rf $(LINKS) && mkdir -p $(LINKS)
	@$(VENV)/bin/python -c "from setuptools.build_meta import build_editable as build; build('$(LINKS)')" > $(LINKS)/log \
	  2>&1 || { cat $(LINKS)/log; exit 1; }
	@touch $@

# What the tests below need; `make -j2 environments` installs two at a time. An interpreter that is not at hand gets none.
OLDEST   := $(VENV)-oldest/.ready
.PHONY: environments
environments: $(OLDEST) $(PYTHONS:%=$(VENV)-%/.ready) $(INSPECT)/.ready $(LIGHTEVAL)/.ready

$(VENV)-%/.ready: constraints.txt $(LINKS)/.ready
	@found=; for one in python$* "$$(pyenv prefix $* 2>/dev/null)/bin/python" \
	    "$$(uv python find --no-python-downloads $* 2>/dev/null)"; do \
	  if "$$one" -c "" >/dev/null 2>&1; then found=$$one; break; fi; done; \
	if [ -z "$$found" ]; then rm -rf $(VENV)-$*; exit; fi; \
	echo "Python $*: installing"; "$$found" -m venv --clear --without-pip $(VENV)-$* && $(PIP) \
	  --python $(VENV)-$*/bin/python $(PUT) --constraint constraints.txt $(LINKS)/*.whl $(CORE_ENV) && touch $@

.PHONY: $(PYTHONS:%=test-python-%)
test-pythons: $(PYTHONS:%=test-python-%)

$(PYTHONS:%=test-python-%): test-python-%: $(VENV)-%/.ready
	@if test -e $<; then echo "Python $*:"; $(VENV)-$*/bin/python $(TEST_CORE); \
	else echo "Python $*: not at hand, not tested"; fi

# The same with the oldest version of each library that pyproject.toml allows, a corpus that this `datasets` writes, and
# metrics that this `evaluate` loads from a Hub.
test-oldest: $(OLDEST)
	$(VENV)-oldest/bin/python $(TEST_CORE)
	$(VENV)-oldest/bin/python -m pytest tests/hub/test_corpus_builder.py tests/hub/test_dataset_card.py tests/hub/test_spaces.py \
	  -k "corpus_builder or occupation_sentiment or older_datasets or without_the_package"

$(OLDEST): constraints-oldest.txt $(LINKS)/.ready
	$(PYTHON) -m venv --clear --without-pip $(VENV)-oldest
	$(PIP) --python $(VENV)-oldest/bin/python $(PUT) --constraint constraints-oldest.txt $(LINKS)/*.whl $(CORE_ENV)
	touch $@

# Tasks of inspect_ai, whose libraries lie apart and before the others on the path: it takes older versions of two
# of them than the rest is tested with. The checkout comes last: its egg-info would hide that swapbias is installed.
test-inspect: $(INSPECT)/.ready
	PYTHONPATH=$(INSPECT) $(VENV)/bin/python -P -m pytest -o pythonpath= --import-mode=append tests/hub/test_inspect_tasks.py

$(INSPECT)/.ready: constraints-inspect.txt $(READY)
	$(VENV)/bin/python -m pip install --upgrade --constraint constraints-inspect.txt --target $(INSPECT) inspect_ai
	touch $@

# Tasks of lighteval, likewise, whose imports warn. Its libraries are named one by one, for it would bring torch anew.
test-lighteval: $(LIGHTEVAL)/.ready
	PYTHONPATH=$(LIGHTEVAL) $(VENV)/bin/python -P -m pytest -o pythonpath= --import-mode=append -p no:warnings tests/hub/test_lighteval_tasks.py

$(LIGHTEVAL)/.ready: constraints-lighteval.txt $(READY)
	$(VENV)/bin/python -m pip install --upgrade --no-deps --requirement constraints-lighteval.txt --target $(LIGHTEVAL)
	touch $@

# Chat models by vLLM on a CPU, in an environment of its own, for it takes an older transformers. Not part of CI: it installs
# a gigabyte. On Linux with TORCH_INDEX, as for setup: vLLM goes with torch without CUDA here. Its imports warn.
test-vllm: $(VLLM)/.ready
	$(VLLM)/bin/python -m pytest -n 0 -p no:warnings tests/models/chat/test_real_vllm.py

$(VLLM)/.ready: constraints-vllm.txt
	$(PYTHON) -m venv --clear $(VLLM)
	@if test -n "$(TORCH_INDEX)"; then $(VLLM)/bin/python -m pip install --no-deps --constraint constraints-vllm.txt --index-url $(TORCH_INDEX) torch; fi
	$(VLLM)/bin/python -m pip install --no-deps --requirement constraints-vllm.txt
	$(VLLM)/bin/python -m pip install --no-deps --editable .
	touch $@

# The forms of the metrics' Spaces, in an environment with gradio and without swapbias, as a Space has; GRADIO_PYTHON names another.
GRADIO    := build/gradio
test-spaces: $(GRADIO)/.ready
	$(VENV)/bin/python -m pytest -rs tests/hub/test_spaces.py -k form_of_a_space

$(GRADIO)/.ready: $(READY)
	$(PYTHON) -m venv $(GRADIO)
	$(GRADIO)/bin/python -m pip install gradio==6.31.0 datasets evaluate numpy scipy
	touch $@

# Workers of a Ray cluster: two nodes on this machine. ray is no part of what `make test` needs. Workers have one thread
# each; the process that their scores are compared with, to the byte, has as many.
RAY       := $(VENV)/.ray
test-ray: $(RAY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m pytest tests/test_cluster.py

$(RAY): $(READY)
	$(VENV)/bin/python -m pip install --constraint constraints.txt --editable '.[ray]'
	touch $@

# The site of README.md and docs/, without the network; a broken link or reference is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "Site: build/site/index.html"

# make soak SOAK=30: kills, full disks, strangers' bytes and large files for about so many minutes; writes benchmarks/soak/reliability.md.
SOAK ?= 60

soak: $(READY)
	$(VENV)/bin/python -m benchmarks.soak --minutes $(SOAK)

# make bench BENCH="masked --scale 0.1": names and options as in benchmarks/README.md; all at full size by default.
bench: $(READY)
	$(VENV)/bin/python -m benchmarks $(BENCH)

# What a release gets beside its packages: the stored results of benchmarks and soaks.
.PHONY: results
results:
	mkdir -p dist && tar -czf dist/swapbias-benchmarks.tar.gz -C benchmarks results soak/results

# Simulated audits of models without a gap, of every design, experiment and pack; gates; power. SCALE=.15 takes minutes.
SCALE ?= 1

truth: $(READY)
	$(VENV)/bin/python -m benchmarks truth truth_edges truth-shipped truth-gate truth-power --scale $(SCALE) --out build/truth

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/python scripts/code_gauge.py
	git ls-files -z '*.md' '*.ipynb' | xargs -0 $(VENV)/bin/ruff format --check --line-length 118

# While you work: style, types, and the tests of what changed, for 40 seconds at most.
quick: lint
	@$(VENV)/bin/mypy & types=$$!; $(VENV)/bin/python scripts/quick_tests.py; tests=$$?; wait $$types && exit $$tests

types: $(READY) $(NODE)/.ready
	$(VENV)/bin/mypy
	@if test -e $(NODE)/.ready; then $(NODE)/node_modules/.bin/tsc --allowJs --checkJs --strict --noEmit --target es2022 --lib es2023,dom,dom.iterable swapbias/report/page.js swapbias/hub/metric_*.js; fi

# What checks the page and never ships: TypeScript for its script, axe-core for its accessibility.
$(NODE)/.ready: Makefile
	@mkdir -p $(NODE)
	@echo "Installing TypeScript and axe-core into $(NODE)."
	@if command -v npm > /dev/null && npm install --prefix $(NODE) --silent --no-audit --no-fund --ignore-scripts typescript@5.9.3 axe-core@4.14.1; \
	then touch $@; else rm -f $@; echo "Skipped: page.js is not type-checked and axe-core not asked, because npm is missing or reaches no registry."; fi

# Builds what would be released, looks into it, and tries it in a clean environment of each interpreter that is here.
release-check: $(READY)
	$(VENV)/bin/python scripts/release_check.py

clean:
	rm -rf $(VENV) build dist *.egg-info
