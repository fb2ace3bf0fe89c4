# `make audit` and `make test` are all a new user needs; both set up .venv on first use.
VENV   ?= .venv
PYTHON ?= python3
READY  := $(VENV)/.ready

.PHONY: setup audit test docs bench lint types clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[lexicon,clinical,explain,train,dev,docs]'
	touch $@

audit: $(READY)
	$(VENV)/bin/swapbias audit

test: $(READY)
	$(VENV)/bin/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

# The site of README.md and docs/, without the network; a broken link or reference is an error.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet
	@echo "Site: build/site/index.html"

# make bench BENCH="masked --scale 0.1": names and options as in benchmarks/README.md; all at full size by default.
bench: $(READY)
	$(VENV)/bin/python -m benchmarks $(BENCH)

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

types: $(READY)
	$(VENV)/bin/mypy

clean:
	rm -rf $(VENV) build dist *.egg-info
