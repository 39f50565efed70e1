# rayctl: `make demo` and `make test` are the two commands a newcomer needs; both install what they need.
SHELL := /bin/bash
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/rayctl/rayctl/cmd.Version=$(VERSION)
BIN := bin/rayctl

.PHONY: build
build: ## build bin/rayctl
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/rayctl

.PHONY: help
help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 20
