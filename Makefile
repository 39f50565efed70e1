# rayctl: `make demo` and `make test` are the two commands a newcomer needs; both install what they need.
SHELL := /bin/bash
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/rayctl/rayctl/cmd.Version=$(VERSION)
BIN := bin/rayctl

.PHONY: build
build: ## build bin/rayctl
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/rayctl

.PHONY: platforms
platforms: ## build for all systems; `make test` builds for one other, as none of our files is for one architecture alone
	for system in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do \
		CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) build -o /dev/null ./cmd/rayctl || exit 1; \
	done

# Without pyenv's shims, shell programs that look for the interpreter: each call of python3 takes ten times less of a processor.
PYENV_BIN := $(if $(findstring /shims/,$(shell command -v python3)),$(shell python3 -c 'import os, sys; print(os.path.join(sys.base_prefix, "bin"))'))
ifneq ($(PYENV_BIN),)
export PATH := $(PYENV_BIN):$(PATH)
endif

# Developer tools are built from the Go module proxy, once for each version.
TOOLS := $(or $(RAYCTL_TEST_CACHE),$(HOME)/.cache/rayctl-test)/tools
GOLANGCI_VERSION := v2.15.0
GOLANGCI := $(TOOLS)/golangci-lint-$(GOLANGCI_VERSION)/golangci-lint

$(GOLANGCI):
	GOBIN=$(@D) GOFLAGS= $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)

.PHONY: lint
lint: $(GOLANGCI) ## static checks of the Go code
	$(GOLANGCI) run ./...
	@$(MAKE) --no-print-directory vet-others

.PHONY: vet-others
vet-others: ## go vet, tests included, for the systems that the tests do not run on
	for system in darwin/arm64 linux/arm64; do \
		CGO_ENABLED=0 GOOS=$${system%/*} GOARCH=$${system#*/} $(GO) vet ./... || exit 1; \
	done

GORELEASER_VERSION := v2.16.0
GORELEASER := $(TOOLS)/goreleaser-$(GORELEASER_VERSION)/goreleaser
CYCLONEDX_VERSION := v1.10.0
CYCLONEDX := $(TOOLS)/cyclonedx-gomod-$(CYCLONEDX_VERSION)/cyclonedx-gomod

$(GORELEASER):
	GOBIN=$(@D) GOFLAGS= $(GO) install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
$(CYCLONEDX):
	GOBIN=$(@D) GOFLAGS= $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)

.PHONY: snapshot
snapshot: $(GORELEASER) $(CYCLONEDX) ## what a release of this commit would be, in dist/: archives, deb, rpm, SBOMs, checksums
	PATH="$(dir $(CYCLONEDX)):$$PATH" $(GORELEASER) release --snapshot --clean

.PHONY: release-tools
release-tools: $(GORELEASER) $(CYCLONEDX) # for test/release
	@echo $^

.PHONY: docs
docs: ## write the references of docs/ from the code
	$(GO) run ./docs/gen
	RAYCTL_UPDATE_GOLDEN=1 $(GO) test -count 1 -run '^TestSayings$$' ./slurm/controller

MATERIAL_VERSION := 9.8.2
SITE := $(TOOLS)/mkdocs-material-$(MATERIAL_VERSION)

$(SITE)/bin/mkdocs:
	python3 -m venv $(SITE)
	$(SITE)/bin/pip install --quiet --disable-pip-version-check mkdocs-material==$(MATERIAL_VERSION)

MYPY_VERSION := 1.14.1
MYPY := $(TOOLS)/mypy-$(MYPY_VERSION)

$(MYPY)/bin/mypy:
	python3 -m venv $(MYPY)
	$(MYPY)/bin/pip install --quiet --disable-pip-version-check mypy==$(MYPY_VERSION)

.PHONY: mypy
mypy: $(MYPY)/bin/mypy # for the tests of python/
	@echo $<

.PHONY: site
site: $(SITE)/bin/mkdocs ## the manuals as a web site, in bin/site; a broken link fails it
	NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict

.PHONY: slurm
slurm: ## a private Slurm cluster that runs until interrupted (SLURM='-nodes 8 -gpus 4 -ssh')
	$(GO) run ./test/slurmtest/cmd $(SLURM)

.PHONY: kubernetes kubernetes-down
kubernetes: ## a private Kubernetes with KubeRay and Volcano that stays (KUBERNETES='--simulated 2 --batch-scheduler')
	$(GO) run ./test/kubetest/cmd up $(KUBERNETES)
kubernetes-down: ## remove it, or what a killed test has left of it
	$(GO) run ./test/kubetest/cmd down

.PHONY: check-recipes
check-recipes: ## compare the templates for reinforcement learning with their frameworks: wheels of PyPI, sources of GitHub
	GO=$(GO) test/recipes/check.sh

.PHONY: kill-templates
kill-templates: ## run templates and kill their drivers and nodes at random moments, ten times each: half an hour, not in CI (TEMPLATE=train KILLS='-kills.n 3 -kills.seed 7', TEMPLATE=rllib); prints where each attempt began
	scripts/prepare.sh test
	$(GO) test -tags matrix -count 1 -timeout 2h -v -run '^TestKilledTemplates$$/^$(or $(TEMPLATE),(grpo|train|tune))$$' ./test/e2e -args $(KILLS)

.PHONY: bench
bench: build ## measure rayctl beside Ray's own command line, about 10 minutes (BENCH='-n 1 -only submit')
	$(GO) run ./test/bench -rayctl $(BIN) $(BENCH)

.PHONY: bench-slurm
bench-slurm: build ## measure rayctl beside Ray's own ways on private Slurm clusters, about 15 minutes a run (BENCH='-n 1 -only nodes4')
	$(GO) run ./test/bench -slurm -n 3 -rayctl $(BIN) $(BENCH)

.PHONY: bench-kuberay
bench-kuberay: build ## measure rayctl beside KubeRay's RayJobs on a private Kubernetes, about 5 minutes a run (BENCH='-n 1 -only life')
	$(GO) run ./test/bench -kuberay -n 3 -rayctl $(BIN) $(BENCH)

.PHONY: earlier
earlier: ## build bin/earlier/rayctl of the commit REV, with which the benches compare (REV=v0.1 make earlier; BENCH='-only unchanged -base bin/earlier/rayctl')
	scripts/earlier.sh "$(REV)" bin/earlier

.PHONY: help
help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 20

.PHONY: demo
demo: ## a real GRPO training run through a real Ray cluster on this machine
	scripts/prepare.sh demo
	@$(MAKE) --no-print-directory build
	$(BIN) run -f examples/grpo/rayctl.yaml

# These begin first, in this order: a long one that begins late would run alone in the end.
LONGEST := ./slurm ./test/e2e ./local ./launcher/keeper ./tsp ./dashboardclient ./keeper ./test/release
# Kubernetes takes half of a processor also while it has nothing to do: it ends with the tests that need it.
IN_KUBERNETES := ./kuberay ./test/chaos
# Their tests are about the beds that the others' tests run on: only who changes a bed needs them (make test-beds).
BEDS := ./test/slurmtest ./test/kubetest
# What `make test` leaves out and `make test-rest` runs (docs/testing.md has the rule): a second look at what another test shows, other versions, long programs.
# Each is a whole name, or names of subtests with /. (`go test -skip` goes by the first alternative that matches: an unanchored TestSlurm/Work would keep TestSlurmExamples.)
empty :=
bar := |
one_of = $(subst $(empty) $(empty),$(bar),$(foreach name,$(1),^$(subst /,$$/^,$(name))$$))
REST := $(call one_of, \
	TestEachVersion TestOldestVersion TestWithoutToken TestEarlierRayctl TestOldCRD TestLoad \
	TestEarly/Ended TestEarly/DiskFills TestEarly/Requeued TestEarly/Granted TestEarly/Warned TestFaults/DiskFills \
	TestIdentity/KeeperKilled TestNetwork/PortsTaken TestNodes/IdleGPUs TestNodes/In_singularity TestPartitions/OldRay TestPartitions/InsideHeterogeneous \
	TestOverloadedAPIServer TestClientDiesWhileCommitting TestRayClusterDeleted TestKeeperJobDeleted TestPrepareFillsDisk TestExamples TestGRPOInPods \
	TestIdleGPUsOfPods TestNoImage TestImagesRay TestNoKeeperImage TestKeeperLostBeforeRecord TestNodeComesLate TestNodeTaken TestRanksEvicted TestRanksOutOfMemory TestNoKeeperNoJob \
	TestProxyNotPermitted TestConfigMapsNotPermitted TestUseNotPermitted TestRolePerCommand TestRunSamples TestSidecars TestVolcanoStopped TestOthersAreUsed \
	TestReadersEndNothing TestEarly/HeadLost TestEarly/QueueLimit TestElastic/Apart \
	TestNewUser TestTemplates TestTorchrunTemplate TestMPITemplate TestMPIBySSH TestRLlibTemplate TestOwnTrainer TestTrainWarned TestGRPOOnSlurm TestElasticExample TestServeExample \
	TestBrowserDashboard TestNearlyFullDisk TestTwoServes TestSecondUserFiles TestModulesLikeRays TestTLS TestClusterOfADriver TestCIKilled/GitLab \
	TestElasticFaults TestFaults/ControllerAwayAtStart TestFaults/NodeIsDown TestFaults/UnreadableToken TestEarly/WorkerNodeDies TestEarly/HeadsNodeDies \
	TestPartitions/InsideJob TestPartitions/NodeFails TestIdentity/NodeFailed TestSlurm/AllNodes TestSlurm/Work \
	TestBusyAPIServer TestPolicies TestNetworkPolicies TestSiteRules TestGitLab TestRayJobsFlags TestSignalsWithoutTerminal TestSlurmExamples \
	TestNameServiceAway TestSnapshot TestRecipe TestSamples \
	TestFaults/NodesLost/SlurmdHangs TestFaults/NodesLost/NodesReplaced TestElastic/HeadsNodeDies TestElastic/RanksPreempted TestNetwork/Partitions TestCIKilled/GitHub/starting TestCIKilled/GitHub/uncommitted TestCIKilled/GitHub/draining \
	TestKueue TestNamespaceDeleted TestJobRefused TestBatchScheduler/Conformance \
	TestUnreadGPUs TestExternalOldRay TestRayVersions TestFlood TestKillKeeperWhileStarting TestElasticNodesFail TestElasticNodesLost TestScale \
	TestRayStop TestConformance/driver_that_ends_Ray TestSlurm/Conformance/driver_that_ends_Ray TestTimeLimitRestarts TestHeadLost TestDriverIsWarnedOfItsEnd TestDriversLife TestPrepareFillsTheDisk TestInterruptAndRetriedWorker TestIdleAndDisconnect)
# The other packages together have hundreds of threads for moments, in which a controller of Kubernetes beside them may lose its lease: they run alone. None has a test of REST.
SHORT := $$($(GO) list ./... | grep -vxF "$$($(GO) list $(LONGEST) $(IN_KUBERNETES) $(BEDS))")
# go vet has run before.
FLAGS := -vet=off
SELECT := $(FLAGS) -skip '$(REST)'

# What the race detector looks at, with -short: it needs cgo, and finds nothing in packages that only run other programs: Python's tests and environments, documents, the beds.
NOT_RACED := rayctl/(keeper|python|local/rayenv|scripts|docs/.*|test/.*)$$

.PHONY: race
race: ## the race detector on all tests that need no real system
	CGO_ENABLED=1 $(GO) test -vet=off -race -short $$($(GO) list ./... | grep -vE '$(NOT_RACED)')

.PHONY: test
test: $(MYPY)/bin/mypy ## everything, on real systems; installs what it needs into caches outside the repository
	scripts/prepare.sh test
	$(GO) vet -tags matrix ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/rayctl
	@$(MAKE) --no-print-directory race
	$(GO) run ./test/kubetest/cmd build --guests=false
	$(GO) test $(FLAGS) $(SHORT)
	@$(MAKE) --no-print-directory -j 2 test-longest test-in-kubernetes

.PHONY: test-longest
test-longest: # of `make test`
	$(GO) test $(SELECT) -p 2 -timeout 75m $(LONGEST)

.PHONY: test-in-kubernetes
test-in-kubernetes: # of `make test`
	$(GO) run ./test/kubetest/cmd run -- $(GO) test $(SELECT) -timeout 75m $(IN_KUBERNETES)

.PHONY: test-times
test-times: ## the long tests of `make test`, and a table of where their minutes go, waiting against processor (TESTS='-p 1 ./slurm')
	scripts/prepare.sh test
	$(GO) run ./test/kubetest/cmd build
	$(GO) run ./test/kubetest/cmd run -- $(GO) run ./test/times -- $(GO) test -json -count 1 -timeout 85m $(or $(TESTS),$(SELECT) -p 2 $(LONGEST) $(IN_KUBERNETES))

.PHONY: test-rest
test-rest: $(GORELEASER) $(CYCLONEDX) ## what `make test` leaves out (REST in the Makefile): before a release, an hour, not in CI
	scripts/prepare.sh test
	$(GO) run ./test/kubetest/cmd build
	$(GO) run ./test/kubetest/cmd run -- $(GO) test $(FLAGS) -p 2 -count 1 -timeout 3h -run '$(REST)' $(LONGEST) $(IN_KUBERNETES)

.PHONY: test-beds
test-beds: ## the tests of the private Slurm and Kubernetes themselves, for who changes test/slurmtest or test/kubetest: ten minutes, not in CI
	scripts/prepare.sh test
	$(GO) run ./test/kubetest/cmd build
	$(GO) run ./test/kubetest/cmd run -- $(GO) test -count 1 -timeout 40m $(BEDS)

.PHONY: check check-local check-slurm check-kubernetes
check: ## a few minutes for every save: vet, lint, units, then side by side the quick part of the conformance suite on local Ray, one run on Slurm, one on Kubernetes
	scripts/prepare.sh test
	$(GO) vet ./...
	@$(MAKE) --no-print-directory lint
	$(GO) test -vet=off -short ./...
	$(GO) run ./test/kubetest/cmd build
	@$(MAKE) --no-print-directory -j 3 check-local check-slurm check-kubernetes
check-local:
	RAYCTL_TEST_QUICK=1 $(GO) test -vet=off -run '^TestConformance$$' ./local
check-slurm:
	$(GO) test -vet=off -run '^TestSlurm$$/^Work$$' ./slurm
check-kubernetes:
	$(GO) run ./test/kubetest/cmd run -- $(GO) test -vet=off -run '^TestGang$$' ./kuberay

.PHONY: test-versions
test-versions: ## the oldest and the newest supported Kubernetes with KubeRay, which it builds, other Rays, PyPI's torch (3 GB), an earlier rayctl, the newest Slurm, and forms of the operator that few sites have: an hour, not in CI
	scripts/prepare.sh test
	$(GO) test -tags matrix -count 1 -timeout 40m -run '^Test(EarlierRayctl|RayVersions|RLlibNewTorch)$$' ./test/e2e ./launcher/keeper
	$(GO) test -tags matrix -count 1 -timeout 40m -run '^TestNewestVersion$$' ./slurm
	$(GO) run ./test/kubetest/cmd build
	$(GO) run ./test/kubetest/cmd run -- $(GO) test -tags matrix -count 1 -timeout 40m -run '^Test(BatchScheduler|OldCRD)$$' ./kuberay
	for set in oldest newest; do \
		export RAYCTL_TEST_KUBE=$$set; \
		$(GO) run ./test/kubetest/cmd build --kwok=false && $(GO) test -count 1 -timeout 40m -run '^Test(MinimalRole|Gang|Doctor|Ways|Samples|OthersAreUsed)$$' ./kuberay || exit 1; \
	done; $(GO) run ./test/kubetest/cmd down

.PHONY: conformance
conformance: ## the whole conformance suite on every launcher, also the scenarios that `make test` runs on one that has them in common: an hour, not in CI; the keeper's flood with 500 friends and 2,000 strangers; and what a few more tests leave out in `make test` (PLAIN=1: with ray.fastStart: false; LAUNCHERS=./slurm)
	scripts/prepare.sh test
	$(GO) run ./test/kubetest/cmd build
	RAYCTL_TEST_WHOLE=1 RAYCTL_TEST_PLAIN_START=$(PLAIN) $(GO) run ./test/kubetest/cmd run -- $(GO) test -count 1 -p 1 -timeout 3h -run '^Test(Conformance|Slurm)$$/^(Conformance$$|[^A-Z])' $(or $(LAUNCHERS),./local ./tsp ./slurm ./kuberay)
	RAYCTL_TEST_WHOLE=1 $(GO) test -count 1 -run '^Test(Flood|NearlyFullDisk)$$' ./launcher/keeper ./test/e2e
	RAYCTL_TEST_WHOLE=1 $(GO) run ./test/kubetest/cmd run -- $(GO) test -count 1 -timeout 1h -run '^Test(KeeperKilledAgain|Early)$$' ./kuberay

.PHONY: test-kubernetes
test-kubernetes: ## of `make test` the tests on Kubernetes, with real KubeRay, Volcano and Ray in pods
	scripts/prepare.sh test
	$(GO) run ./test/kubetest/cmd build
	$(GO) run ./test/kubetest/cmd run -- $(GO) test -p 1 -timeout 80m ./kuberay ./test/kubetest/...

.PHONY: sim
sim: ## the keeper in virtual time: SEED=7 tells one life line by line, LIVES=10000 (SEED=1) checks that many
	python3 keeper/sim $(if $(LIVES),--lives $(LIVES),--trace) --seed $(or $(SEED),1)

.PHONY: sim-planted
sim-planted: ## looks for seeds whose lives the planted bugs of keeper/sim/planted.py spoil
	python3 keeper/sim --find --lives $(or $(LIVES),3000) --seed $(or $(SEED),1)

.PHONY: chaos
chaos: ## random faults on random launches on all launchers, not in CI (default: CHAOS='-chaos.n 300 -chaos.seed 1 -chaos.daemons'; -chaos.kept: what failed once); prints cases, faults by kind, violations
	scripts/prepare.sh test
	$(GO) run ./test/kubetest/cmd build
	$(GO) run ./test/kubetest/cmd run -- $(GO) test -count 1 -parallel 3 -timeout 6h -v -run '^Test(Campaign|KeptCases)$$' ./test/chaos -args $(or $(CHAOS),-chaos.n 300 -chaos.seed 1 -chaos.daemons)
