# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
# Every target installs what it needs from PyPI or Debian, asks nothing, and closes with one line that says what held.
SHELL := /bin/sh
.DEFAULT_GOAL := help
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
# With it, which images of Python like to set, every playbook, module and engine compiles our code again.
unexport PYTHONDONTWRITEBYTECODE
# Whoever has exported the inventory of real machines, as the runbooks say, means none of the targets here.
unexport ANSIBLE_INVENTORY

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: ## the controller's environment and the embedded lab's, in .venv
	@tools/setup lab
	@echo "setup: .venv is ready (ansible-core, the real router, supervisord)"

demo: ## start the embedded lab in the story's state and restore the knob
	@tools/setup lab
	@tools/demo

test: ## everything that CI runs
	@tools/setup lab dev
	@tools/test

test-lab: ## the whole lab, also what is too long for make test (15 to 25 minutes)
	@tools/setup lab dev
	@PATH="$$PWD/.venv/bin:$$PATH" ANSIBLE_CONFIG="$$PWD/ansible.cfg" pytest tests/lab -n 3 --dist loadfile --no-loadscope-reorder --durations=8
	@echo "test-lab: the whole lab holds (simulated engines, real router)"

lint: ## ansible-lint, yamllint, ruff, mypy, shellcheck
	@tools/setup lab dev
	@tools/lint

molecule: ## real systemd hosts over ssh in podman, as root (S=scenario; without it four side by side, with ALL=1 all six)
	@tools/setup lab dev molecule
	@tools/molecule$(if $(S), $(S),-all)

test-real: ## the real SGLang pair on CPU behind the real router (2.7 GB of packages)
	@tools/setup lab dev
	@tools/test-real

bench: ## ratios, measured in one run
	@tools/setup lab dev
	@tools/bench

soak: ## changes that die: thousands in process, 25 whole playbooks killed (SEEDS, KILLS, SEED)
	@tools/setup lab dev
	@tools/soak

gate-full: ## kernels: every architecture and every Triton, compiled without a GPU (long)
	@$(MAKE) --no-print-directory -C kernels gate-full

gpu: ## kernels: self-test and sweep, on a GPU host in its serving environment (PYTHON=...)
	@$(MAKE) --no-print-directory -C kernels gpu

docs: ## a page of each module, filter and role, in build/docs
	@tools/setup lab
	@tools/docs

pictures: ## the pictures in docs/pictures, from runs on the lab (wants Chromium)
	@tools/setup lab dev
	@tools/pictures

clean: ## end everything that was started, hosts too, and remove what was built
	@if [ -x .venv/bin/python ]; then for lab in .lab .lab-*; do [ -d "$$lab" ] && .venv/bin/python -m lab down --dir "$$lab" || :; done; fi
	@for hosts in .cache/molecule/*/addresses; do [ -e "$$hosts" ] && tools/molecule "$$(basename "$$(dirname "$$hosts")")" destroy >/dev/null || :; done
	@rm -rf .lab .lab-* build .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .ansible changelogs/.plugin-cache.yaml
	@$(MAKE) --no-print-directory -C kernels clean >/dev/null
	@find . -name '.venv*' -prune -o -name .git -prune -o -name __pycache__ -prune -exec rm -rf {} +
	@echo "clean: the lab is down and nothing built is left (.venv stays; rm -r .venv removes it; reports/ and evidence/ are yours)"

.PHONY: help setup demo test test-lab lint molecule test-real bench soak gate-full gpu docs pictures clean
