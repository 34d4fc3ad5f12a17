# SPDX-License-Identifier: Apache-2.0
# `make help` says what there is.

PREFIX ?= /opt/stepguard
DESTDIR ?=
SLURM_INCLUDE ?= /usr/include
PYTHON ?= /usr/bin/python3

# Everything that depends on these settings is built in a directory of its own: several can be built side by side.
KEY := $(shell { $(PYTHON) -VV; echo '$(PREFIX) $(SLURM_INCLUDE) $(PYTHON)'; } 2>&1 | cksum | cut -d' ' -f1)
BUILD := $(CURDIR)/build/$(KEY)
PIP := PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore $(BUILD)/tools/bin/python -m pip --quiet --no-input
SOURCES := pyproject.toml $(shell find python -name '*.py' -o -name py.typed -o -name '*.toml')

help:
	@echo 'make build    compile the plugin and its bridge, prepare the Python environment, in build/'
	@echo 'make install  build, and install under PREFIX=$(PREFIX)'
	@echo 'make demo     a training job in a lab meets a fault: FAULT=node|gpu|link|batch-host|splice|application; as root,'
	@echo '              installs what is missing (splice: PyTorch, up to 1.3 GB)'
	@echo 'make test     lint, then all tests; installs what is missing; as root, or the live ones are left out'
	@echo 'make test-releases  the live tests on other releases of Slurm: RELEASES=$(RELEASES)'
	@echo 'make fuzz     random inputs for all that reads what others wrote, ROUNDS=$(ROUNDS) for each'
	@echo '              of messages and settings, SCRIPT_ROUNDS=$(SCRIPT_ROUNDS) of job scripts'
	@echo 'make bench    as root: what it costs, measured in labs against the design; BENCH="--only PART --rounds N --quick"'
	@echo 'make lint     ruff and mypy over the Python code, shellcheck over the shell'
	@echo 'make clean    remove build/'
	@echo 'settings:     PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) SLURM_INCLUDE=$(SLURM_INCLUDE) PYTHON=$(PYTHON)'

# -- build ------------------------------------------------------------------------------------------------------------

# One at a time for each set of settings, whoever else builds in this tree.
build install:
	@case '$(PREFIX)$(DESTDIR)' in *[[:space:]]*) echo 'stepguard: no spaces in PREFIX and DESTDIR, please' >&2; exit 2;; esac
	@case '$(PREFIX)' in /?*) ;; *) echo 'stepguard: PREFIX must be an absolute path' >&2; exit 2;; esac
	@mkdir -p $(BUILD)
	@flock $(BUILD)/lock $(MAKE) --no-print-directory locked-$@

locked-build: $(BUILD)/venv.ready
	@$(MAKE) --no-print-directory -C spank OUT=$(BUILD) PREFIX=$(PREFIX) SLURM_INCLUDE=$(SLURM_INCLUDE) PYTHON=$(PYTHON) \
	  CFFI_PYTHON=$(BUILD)/venv/bin/python
	@$(MAKE) --no-print-directory -C hooks OUT=$(BUILD)

# pip and setuptools stay in tools, out of the environment that is installed.
$(BUILD)/tools.ready:
	@$(PYTHON) -I spank/bridge_build.py flags compile >/dev/null
	@$(PYTHON) -c 'import ensurepip, venv' || { echo 'stepguard: install python3-venv' >&2; exit 1; }
	@echo 'making the Python environment'
	@rm -rf $(BUILD)/tools $(BUILD)/venv
	@$(PYTHON) -m venv $(BUILD)/tools
	@$(PYTHON) -m venv --without-pip $(BUILD)/venv
	@$(PIP) install 'setuptools>=66' wheel
	@touch $@

$(BUILD)/venv.ready: $(BUILD)/tools.ready $(SOURCES)
	@echo 'filling the Python environment'
	@rm -rf $(BUILD)/source $(BUILD)/wheel
	@mkdir -p $(BUILD)/source
	@cp -R pyproject.toml python $(wildcard README.md LICENSE) $(BUILD)/source/
	@rm -rf $(BUILD)/source/python/*.egg-info
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir $(BUILD)/wheel $(BUILD)/source
	@$(PIP) --python $(BUILD)/venv/bin/python install --no-compile $(BUILD)/wheel/*.whl
	@$(PIP) --python $(BUILD)/venv/bin/python install --no-compile --no-deps --force-reinstall $(BUILD)/wheel/*.whl
	@touch $@

# -- install ----------------------------------------------------------------------------------------------------------

TO := $(DESTDIR)$(PREFIX)
# Under a temporary name first: a program that starts in the middle finds the old file or the new one.
put = install -m $(1) $(2) $(3).new && mv -f $(3).new $(3)

locked-install: locked-build
	@umask 022 && mkdir -p $(TO)/bin $(TO)/lib/slurm $(TO)/lib/stepguard $(TO)/libexec/stepguard \
	  $(TO)/share/stepguard/slurm-conf-examples $(TO)/share/stepguard/systemd
	@spank/install_venv.sh $(BUILD)/venv $(TO) $(PREFIX)
	@sed 's|/opt/stepguard|$(PREFIX)|g' spank/launcher.py > $(BUILD)/stepguard
	@$(call put,755,$(BUILD)/stepguard,$(TO)/bin/stepguard)
	@for file in slurm-conf-examples/* packaging/systemd/*; do \
	  sed 's|/opt/stepguard|$(PREFIX)|g' $$file > $(BUILD)/example && \
	  $(call put,644,$(BUILD)/example,$(TO)/share/stepguard/$${file#packaging/}) || exit; done
	@$(call put,644,$(BUILD)/bridge.so,$(TO)/lib/stepguard/bridge.so)
	@$(call put,644,$(BUILD)/stepguard.so,$(TO)/lib/slurm/stepguard.so)
	@$(call put,755,$(BUILD)/read_as,$(TO)/libexec/stepguard/read_as)
	@$(call put,755,$(BUILD)/hook,$(TO)/libexec/stepguard/prolog)
	@for name in epilog health_check; do \
	  ln -sf prolog $(TO)/libexec/stepguard/$$name.new && \
	  mv -fT $(TO)/libexec/stepguard/$$name.new $(TO)/libexec/stepguard/$$name || exit; done
	@echo 'stepguard is installed in $(TO); to switch it on: $(PREFIX)/share/stepguard/slurm-conf-examples/plugstack.conf'

# -- demo -------------------------------------------------------------------------------------------------------------

FAULT ?= node

demo: packages $(if $(filter splice,$(FAULT)),torch)
	@PYTHONPATH=tests $(PYTHON) -m demo $(FAULT)

# Big: never for anything else.
torch:
	@demo/install_torch.sh

# -- test -------------------------------------------------------------------------------------------------------------

TESTS ?= tests
# The tests of a lab mostly wait for Slurm; each has hosts, addresses and files of its own.
# Hundreds of them wait for real daemons on whatever machine there is: one that fails is tried once more, and the report
# shows what it failed of. Such a failure is a fault to find, in the test or in what it tests.
PYTEST := .venv/bin/python -m pytest -q --numprocesses 4 --dist worksteal --reruns 1 --rerun-show-tracebacks

test: packages lint
	@# Before the tests, lest its time be taken for that of one of them.
	@PYTHONPATH=tests .venv/bin/python -c 'from lab.roots import product; product()'
	@$(PYTEST) $(TESTS)

test-releases: .venv/ready
	@tests/install_packages.sh debootstrap
	@for release in $(RELEASES); do \
	  PYTHONPATH=tests .venv/bin/python -m lab root $$release && \
	  STEPGUARD_LAB_RELEASE=$$release $(PYTEST) tests/live || exit; done

RELEASES ?= 24.11 26.05

fuzz: packages .venv/ready
	@PYTHONPATH=tests:python .venv/bin/python -m shim.fuzz $(ROUNDS)
	@PYTHONPATH=tests:python .venv/bin/python -m unit.scripts.fuzz $(SCRIPT_ROUNDS)

ROUNDS ?= 1000000
SCRIPT_ROUNDS ?= 100000

packages:
	@tests/install_packages.sh

# -- bench ------------------------------------------------------------------------------------------------------------

# All parts take a quarter of an hour; make bench BENCH=--help names them. Client instructions need valgrind.
BENCH ?=

bench: packages .venv/ready
	@PYTHONPATH=tests:tests/live .venv/bin/python -m bench $(BENCH)

# -- lint -------------------------------------------------------------------------------------------------------------

.venv/ready: pyproject.toml
	test -d .venv || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip --quiet --no-input --disable-pip-version-check install --editable '.[dev]'
	touch $@

lint: packages .venv/ready
	@.venv/bin/ruff check --quiet
	@.venv/bin/ruff format --check --quiet
	@.venv/bin/mypy
	@git ls-files '*.sh' ':!tests/data' | xargs --no-run-if-empty shellcheck

clean:
	rm -rf build

.PHONY: help build install locked-build locked-install demo torch test test-releases fuzz bench packages lint clean
.DELETE_ON_ERROR:
