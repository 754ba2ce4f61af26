package kernels

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/internal/golden"
	"github.com/rlx-go/rlx/plugins/metal/msl"
)

// TestDescription checks that the compiler's copy of the description equals the one that the backend reports. After a
// change of kernels, run it with -update.
func TestDescription(t *testing.T) {
	golden.Text(t, "../../../../core/target/wgpu.target", Description().String())
	if err := Description().Check(); err != nil {
		t.Error(err)
	}
}

// TestEveryPrimitive checks that programs compiled for the backend use only ops that it runs, or that are lowered to
// such ops.
func TestEveryPrimitive(t *testing.T) {
	ops := Description().Ops()
	for _, name := range target.Primitive("p").Ops() {
		if d, _ := ir.Find(name); !d.AlwaysView && !slices.Contains(ops, name) {
			t.Errorf("%s has no kernel", name)
		}
	}
}

// openLoop matches a loop whose end is not a number.
var openLoop = regexp.MustCompile(`for \(var [^;]*;[^;]*< [^0-9;][^;]*;`)

// TestTexts generates the WGSL of every case of every op, and of kernels at sizes that no case has, with operands in
// one window and in two. It also translates some of them to MSL (all, if the whole conformance suite was requested), to
// check that shaders keep to the subset that package msl supports. The conformance suite of package backend runs the
// shaders on a device.
func TestTexts(t *testing.T) {
	sample := rand.New(rand.NewPCG(1, 16))
	if seed, err := strconv.ParseUint(os.Getenv(devicetest.SampleEnv), 10, 64); err == nil {
		sample = rand.New(rand.NewPCG(seed, 16))
	}
	for _, d := range ir.Defs() {
		if d.Block || d.Eval == nil {
			continue
		}
		for i, c := range d.Cases() {
			g := ir.NewGraph(d.Name)
			in := inputs(g, c.In...)
			if d.Tuple {
				types, _ := d.InferResults(c.Attrs, c.In, c.Out, nil)
				n, _ := g.AddResults(len(types), d, c.Attrs, in...)[0].Maker()
				checkTexts(t, sample, fmt.Sprintf("%s/%d", d.Name, i), n)
				continue
			}
			checkTexts(t, sample, fmt.Sprintf("%s/%d", d.Name, i), g.AddDeclared(d, c.Attrs, c.Out, in...))
		}
	}
	g := ir.NewGraph("sizes")
	typ := func(dims ...int64) ir.Type { return ir.TypeOf(dtype.F32, dims...) }
	x := inputs(g, typ(1, 8, 8, 16), typ(8, 16, 3, 3), typ(16, 8, 2, 2), typ(1, 4, 16), typ(1, 2048, 16),
		typ(1, 16, 96, 90), typ(1, 96, 90, 16), typ(512, 2048), typ(512, 2048))
	checkTexts(t, sample, "tiled conv2d", op.Conv2D(x[0], x[1], nil, op.ConvAttrs{Layout: op.NHWC}))
	checkTexts(t, sample, "tiled conv_transpose2d",
		op.ConvTranspose2D(x[0], x[2], nil, op.ConvTransposeAttrs{Layout: op.NHWC, Stride: []int{2, 2}}))
	checkTexts(t, sample, "conv2d of a copy, channels first",
		op.Conv2D(x[5], x[1], nil, op.ConvAttrs{Layout: op.NCHW, Padding: []int{1, 1}}))
	checkTexts(t, sample, "conv2d of a copy, channels last",
		op.Conv2D(x[6], x[1], nil, op.ConvAttrs{Layout: op.NHWC, Padding: []int{1, 1}}))
	checkTexts(t, sample, "product in parts", op.FusedMatMul(x[7], x[8], nil, nil, op.FusedMatMulAttrs{TransB: true}))
	checkTexts(t, sample, "attention of few queries",
		op.Attention(x[3], x[4], x[4], op.AttentionOperands{}, op.AttentionAttrs{Heads: 1, Layout: op.BSE}))
	half := ir.TypeOf(dtype.F16, 68, 36)
	y := inputs(g, half, half, ir.TypeOf(dtype.F16, 68), ir.TypeOf(dtype.F16, 68, 68))
	checkTexts(t, sample, "product of halves",
		op.FusedMatMul(y[0], y[1], y[2], y[3], op.FusedMatMulAttrs{TransB: true, Act: "gelu"}))
	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
}

func inputs(g *ir.Graph, types ...ir.Type) (in []*ir.Node) {
	for k, typ := range types {
		in = append(in, nil)
		if typ.Present() {
			in[k] = op.Input(g, string(rune('a'+k)), typ)
		}
	}
	return in
}

func checkTexts(t *testing.T, sample *rand.Rand, name string, n *ir.Node) {
	t.Helper()
	k, why := Find(n)
	if _, view := n.View(); view || why != "" {
		return
	}
	plain, matrices := Limits{WorkgroupStorage: 16 << 10}, Limits{WorkgroupStorage: 32 << 10, Matrices: true}
	for _, windows := range [][]Window{{{0, 4096}}, {{256, 1024}, {0, 3072}}} {
		for i, s := range append(k.Shaders(n, plain), k.Shaders(n, matrices)...) {
			ofMatrices := i >= len(k.Shaders(n, plain))
			views := make([]View, len(s.Bindings))
			for b := range views {
				views[b].Windows = windows
			}
			text, err := s.Text(views)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if n := strings.Count(text, "@binding("); n != len(windows)*len(views)+1 {
				t.Errorf("%s: %d bindings; want %d windows of %d operands, and the parameters", name, n, len(windows),
					len(views))
			}
			if strings.Contains(text, "<no value>") || strings.Count(text, "{") != strings.Count(text, "}") {
				t.Errorf("%s: a constant is missing or braces do not match:\n%s", name, text)
			}
			if has := strings.Contains(text, "rlx_"); has && !ofMatrices || ofMatrices &&
				strings.Contains(text, "fn fetch_0(") && !has {
				t.Errorf("%s: the text for a device with matrices %t has some: %t\n%s", name, ofMatrices, has, text)
			}
			if os.Getenv(devicetest.SampleEnv) == "all" || sample.IntN(8) == 0 {
				if _, err := msl.Translate(text); err != nil {
					t.Errorf("%s: %v; extend package plugins/metal/msl to translate\n%s", name, err, text)
				}
			}
			if s.Loops == nil && openLoop.MatchString(text) {
				t.Errorf("%s: the bound of a loop is known only at run time, but the shader has no Loops:\n%s", name,
					text)
			}
		}
	}
}

// TestFunctionsOf checks that every function is found with its complete text, even if it is a single line.
func TestFunctionsOf(t *testing.T) {
	const short, long = "fn f(x: f32) -> f32 { return x; }\n",
		"fn g(x: f32) -> f32 {\n  if (x < 0.0) {\n    return 0.0;\n  }\n  return f(x);\n}\n"
	for _, text := range []string{short + long, long + short, "// text\n" + short + short + long} {
		var all string
		for _, m := range functionsOf(text) {
			all += m[0]
			if m[0] != short && m[0] != long {
				t.Errorf("found %q", m[0])
			}
		}
		if all != strings.TrimPrefix(text, "// text\n") {
			t.Errorf("%q: found %q", text, all)
		}
	}
	if got, want := len(libraryFunctions()), strings.Count("\n"+library, "\nfn "); got != want {
		t.Errorf("%d functions found in the library, which has %d", got, want)
	}
}
