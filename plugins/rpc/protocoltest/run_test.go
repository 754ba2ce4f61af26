//go:build linux || darwin

package protocoltest

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
)

// TestMain plays a backend if a test started this process as one.
func TestMain(m *testing.M) { rpctest.Main(m) }

// scriptedOptions are options that start the scripted backend in a mode.
func scriptedOptions(t *testing.T, mode string) host.Options {
	b := rpctest.NewScript(t, mode)
	return host.Options{Path: b.Path, Name: "ref", Encode: rpctest.Encode, TempDir: b.Dir, Env: b.Env}
}

// sample returns programs for Run: a product of x, of 1 to 3 rows, and a matrix, which is an input, or a param of the
// last program. The second reshapes x first.
func sample(t *testing.T) *Sample {
	t.Helper()
	build := func(equal, param bool) *program.Program {
		syms := ir.Syms{{Name: "N", Min: 1, Max: 3}}
		if equal {
			syms = append(syms, ir.Sym{Name: "M", Min: 1, Max: 3})
		}
		g := ir.NewGraph("plain", syms...)
		x := op.Input(g, "x", ir.MustType("f32[N,2]"))
		if equal {
			x = op.Reshape(x, ir.Shape{ir.Named("M"), ir.Static(2)})
		}
		leaf := op.Input
		if param {
			leaf = op.Param
		}
		w := leaf(g, "w", ir.MustType("f32[2,2]"))
		g.Return("y", op.MatMul(op.MatMul(x, w, op.MatMulAttrs{}), w, op.MatMulAttrs{}))
		p, _, err := sched.Build(
			g, sched.Options{Method: "plain", Target: "ref", Weights: func(string) (int64, bool) { return 0, true }})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	return &Sample{Program: build(false, false), Inputs: [][]byte{make([]byte, 24), make([]byte, 16)},
		Equal: build(true, false),
		Param: build(false, true), ParamWeights: make([]byte, 256)}
}

// TestRunChecks checks that the server of this package passes all checks with both transports, and that Run detects
// each scripted fault, and only that.
func TestRunChecks(t *testing.T) {
	t.Parallel()
	for mode, fails := range map[string][]string{
		"good":       nil,
		"orphan@":    {"lifeline"},
		"linger@":    {"shutdown"},
		"careless@":  {"unload-unknown"},
		"slowbeat@":  {"beat"},
		"uncounted@": {"counters"},
		"accept=of its space@": {"place-beyond", "place-before", "place-overflow", "place-size",
			"place-arena", "place-weights"},
		"accept=at -256 of its@":         {"place-before"},
		"accept=at 9223372036854775552@": {"place-overflow"},
		"accept=a range inside it@":      {"weights-beyond", "weights-before", "weights-overflow", "weights-size"},
		"accept=at -256 of an artifa@":   {"weights-before"},
		"accept=must be equal@":          {"run-equal-sizes"},
		"timeless@":                      {"call-without-deadline", "run-without-deadline"},
	} {
		for _, chunks := range []bool{false, true} {
			t.Run(mode, func(t *testing.T) {
				t.Parallel()
				opts := scriptedOptions(t, mode)
				opts.NoSharedMemory = chunks
				n := 0
				var failed []string
				err := Run(t.Context(), opts, sample(t), "", func(name string, err error) {
					n++
					name = strings.TrimPrefix(name, "protocol/")
					if errors.Is(err, ErrNotServed) && !(chunks && (name == "beat" || name == "counters")) ||
						errors.Is(err, ErrSkipped) {
						t.Errorf("%s: %v", name, err)
					} else if err != nil && !errors.Is(err, ErrNotServed) {
						failed = append(failed, name)
						t.Logf("%s: %v", name, err)
					}
				})
				fails := fails
				if chunks && (mode == "slowbeat@" || mode == "uncounted@") { // these are about the region
					fails = nil
				}
				if err != nil || n < 36 || !slices.Equal(failed, fails) {
					t.Errorf("%d checks, %v failed, %v; want %v", n, failed, err, fails)
				}
			})
		}
	}
}

// TestWithout checks that Run names every check that it cannot make without a program, and why.
func TestWithout(t *testing.T) {
	t.Parallel()
	opts := scriptedOptions(t, "good")
	var skipped []string
	n := 0
	err := Run(t.Context(), opts, nil, "ref claims nothing", func(name string, err error) {
		n++
		if errors.Is(err, ErrSkipped) && strings.HasSuffix(err.Error(), ": ref claims nothing") {
			skipped = append(skipped, name)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	})
	if err != nil || n < 36 || len(skipped) != n-8 || !slices.Contains(skipped, "protocol/run-generation") {
		t.Errorf("%d checks, %v; %d skipped: %v", n, err, len(skipped), skipped)
	}
}
