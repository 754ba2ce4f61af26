#   make demo                   builds everything, compiles the demo model, runs it and writes mask.png
#   make demo-llama             builds everything, compiles the demo language model and lets it continue a text
#   make build                  bin/rlxc, bin/rlxrun and the backends, which rlxrun finds beside itself
#   make test                   all tests
#   make test-op OP=softmax     all tests of one op: definition, vectors, reference, kernels of cpu and wgpu; seconds
#   make test-model MODEL=sam   the tests of a folder of models/, and the model's golden cases on wgpu
#   make test-quick             the compiler, the format, the models and the reference; about two minutes on two cores
#   make conformance            all checks of all ops on the cpu and wgpu backends, of which make test makes a sample
#   make test-arm64             the cpu backend as arm64 runs it; needs qemu-user-static, binutils-aarch64-linux-gnu
#   make test-windows           the programs for Windows under wine, 9 or newer; says so where there is none
#   make test-browser           the pages of rlxrun serve in headless Chromium; needs chromium and chromium-driver
#   make test-metal-shim        the metal backend as it can be tested without a Mac; needs a C++ compiler
#   make test-metal             the metal backend on a Mac with Apple silicon; writes out/metal/report.txt
#   make test-openai            OpenAI's clients, programs that use them, Triton's and KServe's, against rlxrun serve
#   make test-deploy            the manifests of deploy/, by the schemas of Kubernetes and KServe; see deploy/check.py
#   make test-beam              beam/: vet and the tests of the transforms for Apache Beam; compiling takes minutes
#   make test-flink             rlxbatch on a cluster of Flink, whose processes are killed; needs Java 17 and Maven
#   make test-spark             the same on Spark
#   make wheel                  python/: a wheel for this system, or for RLX_WHEEL=linux/arm64; needs Python and build
#   make test-wheel             the wheel in an empty environment; needs pip's package index
#   make test-rust              sdk/rust: tests, lints, conformance, the tutorial; needs cargo and a C compiler
#   make check                  what must pass before a change is sent: test, check-source, staticcheck, vulncheck
#   make check-source           format, lines, stale generated files, go.mod, vet for other systems
#   make check-files            the same without what make test tries, too
#   make staticcheck            staticcheck, for other systems, too
#   make vulncheck              govulncheck; says so where its database cannot be reached
#   make outdated               the modules that have newer versions
#   make generate               every generated file: assembly, protobuf, spec/ops.md, target descriptions, docs
#   make man                    the manual pages, in out/man
#   make release-dry            all that a release has, in dist/, without publishing it
#   make release-same           builds it twice, in two folders: all files must have the same bytes
#   make test-packages          what release-dry made, installed: deb, rpm, image; needs root and Debian
#   make features               what users expect of the commands, a row each, in half a minute: docs/features.md
#   make bench                  speed, as a share of the machine's peak: docs/performance.md
#   make figures                what docs/measurements.md states
#   make bench-gemm             matrix products as a share of the machine's peak, in under a minute
#   make bench-ops              every op compared with PyTorch: docs/ops-speed.md; ARGS="--only softmax,gelu", PYTHON=
#   make bench-train            a training step compared with PyTorch: bench/train; ARGS="--layers 2", PYTHON=
#   make bench-ops-gpu          ops on large operands on the GPU, compared with PyTorch on CUDA; PYTHON=
#   make fuzz                   every fuzz target for FUZZTIME each
#   make faults                 system calls fail, disks are full, inputs change: half an hour; FAULTS=read for a class

export CGO_ENABLED ?= 0
GO       ?= go
CC       ?= cc
# Metal needs a Mac with Apple silicon, and cuda Linux. Their backends load what the system has.
BACKENDS := cpu null $(if $(filter Darwin-arm64,$(shell uname -s)-$(shell uname -m)),metal) \
  $(if $(filter Linux,$(shell uname -s)),cuda)
# The wgpu backend links a native library: it needs a C compiler, everything else is Go alone.
HAVE_CC  := $(shell command -v $(CC) 2>/dev/null)
FUZZTIME ?= 20s

.PHONY: vet test-go test-wgpu test-windows test-openai wheel test-wheel build demo demo-llama test test-op test-model test-quick conformance test-arm64 test-metal test-metal-shim test-rust test-browser test-deps test-deploy test-beam test-flink test-spark check check-source check-files compile staticcheck vulncheck outdated generated fuzz faults bench bench-gemm bench-ops bench-ops-gpu bench-train bench-onnx onnx-tests figures generate generate-code man release-files release-dry release-same test-packages features clean

build:
	@mkdir -p bin
	$(GO) build -trimpath -ldflags='-s -w' -o bin/ ./cmd/rlxc ./cmd/rlxrun
	@for b in $(BACKENDS); do $(GO) build -trimpath -ldflags='-s -w' -o bin/rlx-backend-$$b ./plugins/$$b || exit 1; done
	@case " $(BACKENDS) " in *" cuda "*) cp plugins/cuda/rlx-backend-cuda.sandbox bin/ ;; esac
ifneq ($(HAVE_CC),)
	CGO_ENABLED=1 $(GO) build -trimpath -ldflags='-s -w' -o bin/rlx-backend-wgpu ./plugins/wgpu
	cp plugins/wgpu/rlx-backend-wgpu.sandbox bin/
else
	@echo "no C compiler ($(CC)): the wgpu backend is not built; install gcc for it"
endif

demo: build
	@mkdir -p out
	bin/rlxc demo/sam-nano.safetensors -o out/sam.rlx
	bin/rlxrun out/sam.rlx --backend cpu --image demo/scene1.png --point 128,128 -o mask.png -o overlay=out/overlay.png
	@echo "the mask is $(CURDIR)/mask.png, drawn over the image in $(CURDIR)/out/overlay.png"

demo-llama: build
	@mkdir -p out
	bin/rlxc demo/llama -o out/llama.rlx
	bin/rlxrun out/llama.rlx --prompt "ROMEO:" -n 120

# These tests take longest. They begin first, so that no processor waits for one of them at the end.
LONGEST := ./sdk/python ./cmd/rlxrun ./plugins/cpu/...

# The wgpu backend's tests compile shaders on one processor, so they run beside the others. vet sees what go vet would.
test: test-deps compile
	+@$(MAKE) --no-print-directory -j3 vet test-go test-wgpu

# One command compiles the packages into the build cache. Without it the commands that follow, which run at the same
# time, and the tests that build programs, would each compile the same packages.
compile:
	$(GO) mod download
	$(GO) list -export ./... >/dev/null

test-go:
	$(GO) test -vet=off -timeout 20m $(LONGEST) ./...

test-wgpu:
ifneq ($(HAVE_CC),)
	CGO_ENABLED=1 $(GO) test -vet=off -timeout 20m ./plugins/wgpu/...
endif

bin/vet: .ci/vet/main.go .ci/vet/load.go .ci/vet/go.mod
	@mkdir -p bin && cd .ci/vet && $(GO) build -o ../../bin/ .

# With cgo, because of the files of the wgpu backend. The second line has the only file that is for builds without it.
vet: bin/vet
ifneq ($(HAVE_CC),)
	CGO_ENABLED=1 bin/vet $$($(GO) env GOOS)/$$($(GO) env GOARCH) ./...
endif
	bin/vet $$($(GO) env GOOS)/$$($(GO) env GOARCH) $(if $(HAVE_CC),./plugins/wgpu,./...)

# An op is a file of core/op. Here all of its checks run, not a sample.
OP_TESTS := ^(TestDefinitionsAreComplete|TestEveryOpIsJudged|TestVectors|TestCases|TestPlainer|TestLowered|TestElementwise|TestReference|TestConformance)$$
test-op: test-deps
	@test -n "$(OP)" && test -e core/op/$(OP).go || { echo "usage: make test-op OP=NAME, where core/op/NAME.go defines the op"; exit 2; }
	RLX_CONFORMANCE=all $(GO) test -vet=off -run '$(OP_TESTS)/^$(OP)$$' ./core/op ./core/devicetest ./plugins/cpu/backend
ifneq ($(HAVE_CC),)
	RLX_CONFORMANCE=all CGO_ENABLED=1 $(GO) test -vet=off -run '$(OP_TESTS)/^$(OP)$$' ./plugins/wgpu/backend
endif

# The tests of wgpu are called after the folders, such as TestSAM; those of TestVision begin with its name.
test-model: test-deps
	@test -n "$(MODEL)" && test -d models/$(MODEL) || { echo "usage: make test-model MODEL=NAME, where models/NAME is a folder"; exit 2; }
	$(GO) test -vet=off ./models/$(MODEL)
ifneq ($(HAVE_CC),)
	RLX_CONFORMANCE=all CGO_ENABLED=1 $(GO) test -vet=off -run '(?i)^Test$(MODEL)$$|^TestVision$$/^$(MODEL)_' ./plugins/wgpu/backend
endif

# What needs no backend processes: the compiler, the format, the models, the reference.
test-quick:
	$(GO) test -short ./core/... ./format/... ./models/... $$($(GO) list ./internal/... | grep -v /faults)

# RLX_CONFORMANCE=N makes the sample with seed N, as a failure names it. The last line runs the cpu backend's process
# over RPC.
conformance: test-deps
	RLX_CONFORMANCE=all $(GO) test -count=1 -timeout 60m -run '^(TestConformance|TestThreads|TestReference|TestOneOp|TestFlushing|TestLegalizeTypes|TestReturned|TestLoopRandom|TestSkipRandom|TestNaNBits)$$' ./core/devicetest ./core/compile ./core/pass ./plugins/cpu/backend
	RLX_CONFORMANCE=all $(GO) test -count=1 -timeout 60m -run '^TestMemory$$' ./core/op
	RLX_CONFORMANCE=all $(GO) test -count=1 -timeout 60m -run '^(TestPaths|TestBlocked)$$' ./cmd/rlxc ./cmd/rlxrun
	RLX_CONFORMANCE=all $(GO) test -count=1 -timeout 60m -run '^TestConformance$$' ./sdk/python
	RLX_CONFORMANCE=all $(GO) test -count=1 -timeout 60m -run '^(TestOutside|TestFlush)$$' ./sdk/backend ./plugins/metal/shim
ifneq ($(HAVE_CC),)
	RLX_CONFORMANCE=all CGO_ENABLED=1 $(GO) test -count=1 -timeout 60m ./plugins/wgpu/backend
endif
	RLX_CONFORMANCE=all $(GO) test -count=1 -timeout 60m ./plugins/cpu/kernels/...
	RLX_CONFORMANCE=all $(GO) test -count=1 -timeout 60m -run '^(TestInterpreted.*|TestTiles)$$' ./plugins/cuda/driver ./plugins/cuda/shim
	RLX_CONFORMANCE=all $(GO) test -count=1 -timeout 60m -short=false -run '^TestConformance$$' ./plugins/cpu

# The generator's own test compares its encodings with the assembler of binutils. It comes last, because what it imports
# is compiled for the other tests meanwhile. Emulation is slow, so of the kernels only the packages with files for arm64
# are tested, and conv, whose products they compute. The ops of the backend's tests use the others, too. SHORT= with
# RLX_CONFORMANCE=all runs all tests of these packages.
SHORT ?= -short
ARM64 := $(sort $(dir $(wildcard plugins/cpu/kernels/*/*_arm64.*))) plugins/cpu/kernels/conv
test-arm64:
	GOARCH=arm64 $(GO) test -vet=off $(SHORT) -timeout 20m -exec qemu-aarch64-static $(addprefix ./,$(ARM64)) ./plugins/cpu/backend
	cd plugins/cpu/kernels/_asm && $(GO) test -vet=off .

test-windows: build
	@mkdir -p bin/windows
	GOOS=windows GOARCH=amd64 $(GO) build -trimpath -ldflags='-s -w' -o bin/windows/ ./cmd/rlxc ./cmd/rlxrun
	GOOS=windows GOARCH=amd64 $(GO) build -trimpath -ldflags='-s -w' -o bin/windows/rlx-backend-cpu.exe ./plugins/cpu
	.ci/windows

test-metal:
	@GO="$(GO)" plugins/metal/test-metal.sh

# The first line leaves its kernels in the user's cache, from which the second takes them. The mask has to be that of
# cpu.
test-metal-shim: build
	RLX_REQUIRE_CXX=1 RLX_CONFORMANCE=all $(GO) test -count=1 -timeout 3h -v -run '^TestConformance$$' ./plugins/metal/shim
	@mkdir -p out/metal
	$(GO) build -tags metal_shim -ldflags='-X main.level=-O0' -o out/metal/rlx-backend-metal ./plugins/metal
	cp plugins/metal/rlx-backend-metal.sandbox out/metal/
	bin/rlxrun plugins test out/metal/rlx-backend-metal --full --transport shm
	$(GO) build -tags metal_shim -o out/metal/rlx-backend-metal ./plugins/metal
	bin/rlxc demo/sam-nano.safetensors -o out/sam.rlx
	bin/rlxrun out/sam.rlx --image demo/scene1.png --point 128,128 -o out/metal/cpu.png
	bin/rlxrun out/sam.rlx --plugin metal=out/metal/rlx-backend-metal --device metal:software --image demo/scene1.png --point 128,128 -o out/metal/metal.png
	cmp out/metal/cpu.png out/metal/metal.png

test-openai: build
	PYTHON=$(PYTHON) .ci/openai/check.sh

PYTHON ?= python3
wheel:
	$(PYTHON) -m build --wheel python -o out/wheel

# Outside of the checkout and without its PATH, so that only what the wheel has is found.
test-wheel: wheel
	rm -rf out/wheel-env && $(PYTHON) -m venv out/wheel-env
	out/wheel-env/bin/pip install -q pytest pillow "$$(ls -t out/wheel/rlx-*.whl | head -1)"
	cp python/tests/test_rlx.py out/wheel-env/ && cd out/wheel-env && \
	  env -i HOME="$$HOME" PATH=/usr/bin:/bin RLX_DEMO=$(CURDIR)/demo bin/python -m pytest -q test_rlx.py
	cd out/wheel-env && env -i HOME="$$HOME" PATH=/usr/bin:/bin bin/rlxrun --version

# Not a part of check: compiling the crate and what it depends on takes longer than the checks have.
test-rust:
	RLX_REQUIRE_RUST=1 $(GO) test -count=1 -v -timeout 60m ./sdk/rust

# Not a part of check: a browser is much to install for two tests. RLX_SCREENSHOTS=DIR writes pictures of the pages.
test-browser:
	RLX_REQUIRE_BROWSER=1 $(GO) test -count=1 -v -run 'Browser$$' ./cmd/rlxrun

# The wgpu backend's tests run on Mesa's software adapter where there is no GPU. Where it cannot be installed they skip.
test-deps:
ifneq ($(HAVE_CC),)
	@ldconfig -p 2>/dev/null | grep -q libvulkan || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && \
	  { apt-get update -qq && apt-get install -y -qq mesa-vulkan-drivers libvulkan1; } >/dev/null || \
	  echo "no Vulkan driver: the tests of the wgpu backend skip; install mesa-vulkan-drivers for them"; }
endif

test-deploy:
	$(PYTHON) deploy/check.py

# Not a part of .ci/run: compiling Beam takes longer than the other checks have. KILLS=100 kills more pipelines.
KILLS ?= 20
test-beam:
	cd beam && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) test -vet=off -timeout 60m . -args -kills $(KILLS)

# Not parts of check: they need Java 17 and Maven, which fetches 152 MB for Flink and 203 MB for Spark once.
test-flink test-spark: test-%:
	mvn -q -B -f beam/$*/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/out/$*/jars
	cd beam && RLX_JARS_$*=$(CURDIR)/out/$*/jars $(GO) test -count=1 -v -vet=off -timeout 60m -run '(?i)$*' .

check: test check-files test-beam staticcheck vulncheck

check-source: GENERATE := generate
check-source: check-files
	$(GO) test -count=1 ./internal/style

# Of Linux on arm64, test-arm64 builds and runs the cpu backend; what else depends on the processor is vetted here. Of
# Windows, the programs of a release are; test-windows runs them. On FreeBSD rlxc works; rlxrun and the backends build
# there and say that the system cannot run backends.
check-files: generated bin/vet
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "gofmt -w these:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) mod tidy -diff
	@for m in $$(git ls-files '*/go.mod' ':!beam'); do echo "go mod tidy -diff in $$m"; (cd $$(dirname $$m) && $(GO) mod tidy -diff) || exit 1; done
	@for d in $(filter-out beam,$(TOOL_MODULES)); do (cd $$d && $(GO) vet ./...) || exit 1; done
	bin/vet linux/arm64 ./plugins/rpc/internal/sandbox ./internal/faults ./plugins/cuda/driver
	bin/vet darwin/arm64 ./cmd/... ./plugins/...
	GOFLAGS=-tags=metal_shim bin/vet linux/$$($(GO) env GOARCH) ./plugins/metal
	bin/vet -notests windows/amd64 ./cmd/... ./plugins/cpu ./plugins/rpc/...

# .ci/tools/go.mod pins the tools, so that modules that use rlx do not see what they need. With -n, go tool prints the
# path of the executable, which is built for this machine whatever the analysed system is. staticcheck remembers what it
# has seen. For other systems U1000 is off: it would name what only this one uses.
GO_TOOL      := $(GO) tool -modfile=.ci/tools/go.mod -n
TOOL_MODULES := $(filter-out .ci/%,$(patsubst %/go.mod,%,$(shell git ls-files '*/go.mod' 2>/dev/null)))
staticcheck:
	@check=$$($(GO_TOOL) staticcheck) || exit 1; set -ex; \
	  $$check ./...; \
	  GOOS=linux GOARCH=arm64 $$check -checks=inherit,-U1000 ./plugins/cpu/... ./plugins/rpc/...; \
	  GOOS=darwin GOARCH=arm64 $$check -checks=inherit,-U1000 ./plugins/metal/... ./plugins/rpc/...; \
	  $(if $(HAVE_CC),CGO_ENABLED=1 $$check ./plugins/wgpu/...;) \
	  for d in $(TOOL_MODULES); do (cd $$d && $$check ./...); done

# Says so where the database, vuln.go.dev, cannot be reached.
vulncheck:
	@GO="$(GO)" .ci/vulncheck

# With -e, go list goes on where a proxy does not list a module's versions: docs/rationale.md, "Dependencies".
outdated:
	@$(GO) list -e -m -u -f '{{with .Update}}{{$$.Path}} {{$$.Version}}, newest {{.Version}}{{end}}' \
	  $$(CGO_ENABLED=1 $(GO) list -deps -test -f '{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}' ./... | sort -u) | grep . || echo "all modules are up to date"

# Fails where generating changes a file, whether or not the work tree had other changes. After make test only the code
# remains to be generated, because the tests have compared the files that they make.
GENERATE ?= generate-code
generated:
	@before=$$(git status --porcelain && git diff) || exit 1; $(MAKE) --no-print-directory $(GENERATE) || exit 1; \
	  test "$$before" = "$$(git status --porcelain && git diff)" || { git status --short; echo "generated files were stale and are now fresh: commit them"; exit 1; }

fuzz:
	@for f in $$(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do \
	  for t in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$f); do \
	    echo "$$t in $$(dirname $$f)"; $(GO) test -run '^$$' -fuzz "^$$t$$" -fuzztime $(FUZZTIME) ./$$(dirname $$f) || exit 1; \
	  done; done

FAULTS ?= all
faults:
	RLX_FAULTS=$(FAULTS) $(GO) test -count=1 -timeout 3h -v -run 'TestFaults|TestFullDisk|TestReadOnly|TestInputsChange' ./internal/faults

bench: build
	@mkdir -p out
	$(GO) run ./bench/peak | tee out/peak.json
	@$(MAKE) --no-print-directory bench-gemm
	$(GO) run ./bench/encode -peak out/peak.json

figures: build
	$(GO) run ./bench/figures

bench-gemm:
	$(GO) run ./bench/gemm

bench-train: build
	$(PYTHON) bench/train/compare.py $(ARGS)

PYTHON ?= python3
bench-ops:
	@mkdir -p out
	$(GO) build -o out/ops ./bench/ops
	$(PYTHON) bench/ops/run.py $(ARGS)

# The node tests of ONNX, which need the package onnx of PyPI.
onnx-tests: build
	$(PYTHON) bench/onnx/nodes.py out/onnx-nodes
	$(GO) build -o bin/onnx ./bench/onnx
	bin/onnx out/onnx-nodes

# Exported models compared with ONNX Runtime; DIR is what bench/onnx/models.py wrote.
DIR ?= out/onnx-models
bench-onnx: build
	$(GO) build -o bin/onnx ./bench/onnx
	$(PYTHON) bench/onnx/speed.py $(DIR) $(ARGS)

bench-ops-gpu:
	@mkdir -p out
	CGO_ENABLED=1 $(GO) build -o out/ops ./bench/ops
	$(PYTHON) bench/ops/run.py --backend wgpu $(ARGS)

generate-code:
	$(GO) generate ./...

# The table of targets is made from the descriptions, so it comes last. spec/testdata is not here: released files are
# never made anew.
generate: generate-code
	$(GO) test ./spec -run '^TestSpec$$' -update
	$(GO) test ./plugins/cpu/backend ./plugins/internal/gpu/kernels -run '^TestDescription$$' -update
	$(GO) test ./core/target -run '^TestSupport$$' -update
	$(GO) test ./core/compile -run '^TestNeeds$$' -update
	$(GO) test ./models/onnx -run '^TestTable$$' -update
	$(GO) test ./internal/style -run '^TestGenerated$$' -update

# The date of the pages is that of the commit, so that a commit gives the same bytes.
man:
	@for c in rlxc rlxrun; do SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(GO) run -tags man ./cmd/$$c man out/man || exit 1; done

# What .goreleaser.yaml puts into archives and packages besides programs. The programs that write it run here.
release-files:
	@rm -rf out/release && mkdir -p out/release/man.gz out/release/completions
	@epoch=$$(git log -1 --format=%ct); set -e; for c in rlxc rlxrun; do \
	  SOURCE_DATE_EPOCH=$$epoch $(GO) run -tags man ./cmd/$$c man out/release/man; \
	  $(GO) build -o out/release/$$c ./cmd/$$c; \
	  for s in bash zsh fish powershell; do out/release/$$c completion $$s > out/release/completions/$$c.$$s; done; done
	@for f in out/release/man/*.1; do gzip -9nc $$f > out/release/man.gz/$$(basename $$f).gz; done
	@$(GO) build -o out/release/sbom ./.ci/sbom

# goreleaser takes long to build, so one that is installed is used. Later versions need a module that some proxies
# refuse. GOFLAGS is not that of CI's tests, because it would change the programs. Images need docker with buildx and
# its daemon.
RELEASER ?= $(or $(shell command -v goreleaser 2>/dev/null),$(GO) run github.com/goreleaser/goreleaser/v2@v2.15.4)
release-dry:
	@docker buildx inspect >/dev/null 2>&1 || echo "images are not made: docker has no buildx here, or no daemon"
	GOFLAGS= env $$(.ci/release/environment) $(RELEASER) release --snapshot --clean \
	  --skip=publish$$(docker buildx inspect >/dev/null 2>&1 || echo ,docker)
	.ci/release/formula dist > dist/rlx.rb

# ARGS="deb" tries that one only.
test-packages:
	.ci/packages $(ARGS)

features: build
	.ci/features

release-same:
	RELEASER="$(RELEASER)" .ci/release/same

clean:
	rm -rf bin out dist mask.png
