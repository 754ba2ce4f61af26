package format

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tinymodel"
)

// mlpText is a small graph with everything that the checks look at: a symbol, weights shared by two programs, views, an
// in-place op, several outputs.
const mlpText = `graph decode
sym N = 1..4
x = input : f32[N,8]
gain = input : f32[8]
w = param : f32[16,8]
b = param : f32[16]
h = matmul x, w {trans_b=true} : f32[N,16]
hb = add h, b : f32[N,16]
act = relu hb : f32[N,16]
half = reshape act : f32[N,2,8]
scaled = mul half, gain : f32[N,2,8]
sum = reduce_sum scaled {axes=[2]} : f32[N,2]
return scaled=scaled, sum=sum
`

const headText = `graph encode
x = input : f32[1,8]
w = param : f32[16,8]
y = matmul x, w {trans_b=true} : f32[1,16]
z = softmax y {axis=1} : f32[1,16]
c = const {value=0.5} : f32[1,16]
d = mul z, c : f32[1,16]
return embeddings=d
`

// blendText has an op that is not elementwise and may overwrite an operand, and operands of the same type.
const blendText = `graph blend
x = input : f32[16,8]
w = param : f32[16,8]
r = relu x : f32[16,8]
q = neg w : f32[16,8]
t = matmul x, w {trans_a=true} : f32[8,8]
p = fused_matmul r, t, residual=q {act="tanh"} : f32[16,8]
s = add p, p : f32[16,8]
return s=s
`

// pickText has ops with several results, which are read, returned, overwritten in place, or unused.
const pickText = `graph pick
x = input : f32[3,8]
n = neg x : f32[3,8]
v, i = top_k n {k=8} : f32[3,8], i32[3,8]
w, j = top_k v {index_dtype=u32, k=2} : f32[3,2], u32[3,2]
r = relu v : f32[3,8]
f = cast i {to=f32} : f32[3,8]
s = add r, f : f32[3,8]
return s=s, j=j
`

// sumsText has an op whose two results overwrite two operands.
const sumsText = `graph sums
x = input : f32[4,8]
g = input : f32[8]
a = exp x : f32[4,8]
b = tanh x : f32[4,8]
s, y = fused_add_rms_norm a, b, g, g {eps=1e-06} : f32[4,8], f32[4,8]
p = mul s, y : f32[4,8]
z = softmax p {axis=1} : f32[4,8]
return z=z
`

// appendText and peekText share a state. appendText updates it and reads it before and after the update.
const appendText = `graph append
sym T = 1..3
rows = input : f32[2,T,4]
pos = input : i32[]
cache = state {init=0.5} : f32[2,8,4]
count = state : f32[1]
before = reduce_sum cache {axes=[0,1,2]} : f32[]
next = kv_append cache, rows, pos {axis=1} : f32[2,8,4]
after = reduce_sum next {axes=[0,1,2]} : f32[]
both = add before, after : f32[]
n = add count, both : f32[1]
return n=n
`

const peekText = `graph peek
cache = state {init=0.5} : f32[2,8,4]
sum = reduce_sum cache {axes=[0,1,2]} : f32[]
return sum=sum
`

// applyText has graphs as values of attributes: both are values of the first node's, and the second has the first.
const applyText = `graph half
sym N = 1..4
a = input : f32[N,8]
b = neg a : f32[N,8]
c = relu b : f32[N,8]
return c=c

graph whole
sym N = 1..4
u = input : f32[N,8]
v = test_apply u {body=@half} : f32[N,8]
return v=v

graph apply
sym N = 1..4
x = input : f32[N,8]
y = test_apply x {body=@half, other=@whole} : f32[N,8]
z = test_apply y : f32[N,8]
return z=z
`

type applyAttrs struct {
	Body  *ir.Graph `attr:"body"`
	Other *ir.Graph `attr:"other"`
}

var _ = ir.Define(ir.Def[applyAttrs]{
	Name: "test_apply", Operands: "x", Doc: "The op of applyText.",
	Infer: func(s ir.Sig[applyAttrs]) (ir.Type, error) {
		if s.Attrs.Body != nil {
			if _, err := ir.CheckBody("body", s.Attrs.Body, s.In, s.Syms); err != nil {
				return ir.Type{}, err
			}
		}
		return s.In[0], nil
	},
	Eval: func(_ applyAttrs, in []*tensor.Array, out *tensor.Array) error { return nil },
	Tol:  func(applyAttrs, []ir.Type, ir.Type) ir.Tolerance { return ir.Tolerance{} },
})

// chainTexts are the segments of a method for a backend without softmax; another backend runs the middle one. See
// chain.
var chainTexts = []string{`graph chain
sym N = 1..4
x = input : f32[N,8]
w = param : f32[16,8]
h = matmul x, w {trans_b=true} : f32[N,16]
return h=h
`, `graph chain
sym N = 1..4
h = input : f32[N,16]
e = softmax h {axis=1} : f32[N,16]
return e=e
`, `graph chain
sym N = 1..4
e = input : f32[N,16]
h = input : f32[N,16]
y = add e, h : f32[N,16]
return y=y
`}

// chain returns a method in segments and its signature. The method does not read its second input.
func chain(t testing.TB, dir *Directory) (*program.Split, Method) {
	t.Helper()
	s := &program.Split{Method: "chain", Target: "few", Outputs: []program.Source{{Segment: 2}, {Segment: 0}}}
	for i, target := range []string{"few", "cpu", "few"} {
		s.Segments = append(s.Segments, program.Segment{Program: build(t, chainTexts[i], target, dir)})
	}
	s.Segments[0].Inputs = []program.Source{{Segment: program.FromInput}}
	s.Segments[1].Inputs = []program.Source{{Segment: 0}}
	s.Segments[1].Lacked = []program.OpCount{{Op: "softmax", Count: 1}}
	s.Segments[2].Inputs = []program.Source{{Segment: 1}, {Segment: 0}}
	rows := ir.MustType("f32[N,16]")
	return s,
		Method{Name: "chain", Syms: ir.Syms{{Name: "N", Min: 1, Max: 4}},
			Inputs:  []Value{{Name: "x", Type: ir.MustType("f32[N,8]")}, {Name: "flag", Type: ir.MustType("i32[N,2]")}},
			Outputs: []Value{{Name: "y", Type: rows}, {Name: "h", Type: rows}}}
}

func testWeights() []Weight {
	r := rand.New(rand.NewPCG(1, 2))
	weight := func(name, typ string) Weight {
		t := ir.MustType(typ)
		f := make([]float32, t.Bytes(nil)/4)
		for i := range f {
			f[i] = r.Float32() - 0.5
		}
		return Weight{Name: name, Type: t, Mutable: name == "w", Write: func(w io.Writer) error {
			_, err := w.Write(tensor.Bytes(f))
			return err
		}}
	}
	return []Weight{weight("b", "f32[16]"), weight("w", "f32[16,8]")} // with padding between them
}

func build(t testing.TB, text, target string, dir *Directory) *program.Program {
	t.Helper()
	states, err := sched.StateLayout(parse(t, appendText), parse(t, peekText))
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := sched.Build(parse(t, text), sched.Options{Target: target, Weights: dir.Offset, State: states.Find})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func parse(t testing.TB, text string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func testArtifact(t testing.TB) (Artifact, []Weight) {
	t.Helper()
	weights := testWeights()
	dir, err := Layout(weights)
	if err != nil {
		t.Fatal(err)
	}
	a := Artifact{Meta: Meta{
		Producer: Producer{"rlxc", "test"}, Model: "mlp", Architecture: "test",
		Sources: []Source{{Name: "mlp.safetensors", Size: 576}},
		Pairs:   []Pair{{"license", "none"}, {"note", "made for tests"}},
	}}
	for _, p := range []struct{ text, target string }{{headText, "cpu"}, {headText, "portable"}, {mlpText, "cpu"},
		{blendText, "cpu"},
		{tinymodel.Image, "cpu"}, {tinymodel.Prompt, "cpu"}, {pickText, "cpu"}, {appendText, "cpu"},
		{peekText, "cpu"}, {applyText, "cpu"}, {sumsText, "cpu"}} {
		a.Programs = append(a.Programs, build(t, p.text, p.target, dir))
	}
	a.Meta.Task = tinymodel.SmallTask()
	return a, weights
}

// splitArtifact returns the test artifact with a method in segments.
func splitArtifact(t testing.TB) (Artifact, []Weight) {
	t.Helper()
	a, weights := testArtifact(t)
	dir, err := Layout(weights)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range a.Programs {
		if _, ok := a.Meta.Method(p.Method); !ok {
			a.Meta.Methods = append(a.Meta.Methods, MethodOf(p.Method, p.Graph))
		}
	}
	s, m := chain(t, dir)
	a.Splits, a.Meta.Methods = append(a.Splits, s), append(a.Meta.Methods, m)
	return a, weights
}

// artifactBytes returns the test artifact as a file's bytes.
func artifactBytes(t testing.TB) []byte {
	t.Helper()
	artifactOnce.Do(func() {
		path := filepath.Join(t.TempDir(), "a.rlx")
		a, weights := splitArtifact(t)
		if _, err := Write(context.Background(), path, a, weights); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		artifact = b
	})
	return bytes.Clone(artifact)
}

var (
	artifactOnce sync.Once
	artifact     []byte
)

func verifyBytes(b []byte) (*Verified, error) {
	return Verify(bytes.NewReader(b), int64(len(b)), Policy{})
}
