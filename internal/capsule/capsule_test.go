package capsule

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/campaign"
)

const graph = `graph f
sym N = 1..4
x = input : f32[N,3]
i = input : i64[2]
w = param : f32[3,5]
v = param : f16[7,3]
cache = state : f32[2,3]
pos = input : i32[]
w2 = reshape w : f32[15]
w3 = reshape w2 : f32[3,5]
h = matmul x, w3 : f32[N,5]
g = gather v, i {axis=0} : f16[2,3]
r = cast g {to=f32} : f32[2,3]
next = kv_append cache, r, pos {axis=0} : f32[2,3]
s = reduce_sum next {axes=[0]} : f32[3]
return h=h, s=s
`

// made returns a capsule of graph as bytes.
func made(t testing.TB, weights bool) []byte {
	t.Helper()
	g, err := ir.Parse(graph)
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int64{"v": 0, "w": 256}
	p, _, err := sched.Build(g, sched.Options{Method: "f", Target: "cpu",
		Weights: func(name string) (int64, bool) { n, ok := at[name]; return n, ok }})
	if err != nil {
		t.Fatal(err)
	}
	c := Contents{Split: program.Whole(p), Inputs: []tensor.Tensor{tensor.New(dtype.F32, 2, 3),
		tensor.New(dtype.I64, 2), tensor.New(dtype.I32)},
		States: map[string]tensor.Tensor{"cache": tensor.New(dtype.F32, 2, 3)}}
	tensor.View[float32](c.Inputs[0].Data)[4] = 1.5
	if weights {
		c.Weight = func(_ int, n *ir.Node) (tensor.Tensor, error) {
			w := tensor.New(n.Type.DType, n.Type.Shape.Eval(nil)...)
			w.Data[0] = n.Name[0]
			return w, nil
		}
	}
	var b bytes.Buffer
	m := Manifest{Host: "test", Model: "m", From: "sha256:00", Sizes: map[string]int64{"N": 2},
		Inputs: []Input{{"x", "f32[N,3]"}, {"i", "i64[2]"}, {"pos", "i32[]"}}, Precision: "f32",
		Error: Error{"RLX5106", "it died"}, LastStep: "step 1"}
	if err := Write(context.Background(), &b, m, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(b []byte) (*File, error) {
	return Read(context.Background(), "c", bytes.NewReader(b), int64(len(b)))
}

// TestRoundTrip checks that a capsule that is read back has the written contents. It also checks that the capsule's
// artifact is valid, with the weights of the capsule or made-up ones at other offsets.
func TestRoundTrip(t *testing.T) {
	for _, weights := range []bool{false, true} {
		f, err := read(made(t, weights))
		if err != nil {
			t.Fatal(err)
		}
		in, err := f.ReadInputs()
		if err != nil || len(in) != 3 || tensor.View[float32](in["x"].Data)[4] != 1.5 || !slices.Equal(
			in["x"].Shape, []int{2, 3}) {
			t.Errorf("inputs %v, %v", in, err)
		}
		if st, err := f.ReadStates(); err != nil || len(st["cache"].Data) != 24 {
			t.Errorf("states %v, %v", st, err)
		}
		if f.LastStep != "step 1" || f.Error.Code != "RLX5106" || f.Weights != weights || !f.Weighted() {
			t.Errorf("manifest %+v", f.Manifest)
		}
		path := filepath.Join(t.TempDir(), "m.rlx")
		if err := f.WriteArtifact(t.Context(), path, nil); err != nil {
			t.Fatal(err)
		}
		v, err := format.Open(path, format.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if v.Weights().Size() == 0 || len(v.Programs()) != 1 {
			t.Errorf("%d bytes of weights, %d programs", v.Weights().Size(), len(v.Programs()))
		}
		if weights {
			off, _ := v.WeightsSection()
			at, _ := v.Weights().Offset("w")
			b := make([]byte, 1)
			if v.File().ReadAt(b, off+at); b[0] != 'w' {
				t.Errorf("weight w begins with %d", b[0])
			}
		}
		if err := f.WriteArtifact(t.Context(), path, v); !weights && !errors.Is(err, code.Capsule) {
			t.Errorf("weights of another artifact: %v", err)
		}
	}
}

// signed returns b with the digest that it should have.
func signed(b []byte) []byte {
	if len(b) < sha256.Size {
		return b
	}
	b = slices.Clone(b)
	sum := sha256.Sum256(b[:len(b)-sha256.Size])
	copy(b[len(b)-sha256.Size:], sum[:])
	return b
}

// TestRefused checks that capsules that are damaged, or whose parts do not fit, are refused.
func TestRefused(t *testing.T) {
	good := made(t, true)
	same := func(from, to string) []byte { // texts of one length
		if len(from) != len(to) {
			t.Fatalf("%q and %q", from, to)
		}
		return signed(bytes.Replace(good, []byte(from), []byte(to), 1))
	}
	damaged := slices.Clone(good)
	damaged[len(damaged)-40] ^= 1
	for want, b := range map[string][]byte{
		"digest differs":        damaged,
		"is not a capsule":      same("rlx.capsule", "rlx.capsulf"),
		"header":                good[:7],
		"has version 2":         same(`\"version\":1`, `\"version\":2`),
		"cannot be read":        same(`\"last_step\"`, `\"last_stop\"`),
		"programs do not allow": same(`\"N\":2`, `\"N\":9`),
		"part":                  same(`"weight.w"`, `"weight.u"`),
		"value 7 of segment -1": same(`[-1,1]`, `[-1,7]`),
		"symbol M":              same(`f32[N,3]`, `f32[M,3]`),
		"comes from a value":    same(`f32[N,3]`, `f32[N,2]`),
		"has no part program.0": same(`"program.0"`, `"program.1"`),
		"program.0:":            signed(bytes.Replace(good, []byte("matmul"), []byte("matmil"), 1)),
	} {
		_, err := read(b)
		if want == "header" {
			want = "safetensors"
		}
		if !errors.Is(err, code.Capsule) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}

// FuzzRead reads capsules whose digest is right. A capsule that is accepted makes a valid artifact.
func FuzzRead(t *testing.F) {
	f := campaign.New(t)
	f.Add(made(t, false))
	f.Add(made(t, true))
	f.Fuzz(func(t testing.TB, b []byte) {
		c, err := read(signed(b))
		if err != nil {
			if !errors.Is(err, code.Capsule) {
				t.Errorf("an error without the code: %v", err)
			}
			return
		}
		if _, err := c.ReadInputs(); err != nil {
			t.Error(err)
		}
		if _, err := c.ReadStates(); err != nil {
			t.Error(err)
		}
	})
}
