package onnx

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

const gateOp = `op com.acme.gatedunit
attr alpha = 1.0
attr exact = true
attr to = f32

graph expansion
sym N = 1..64
sym K = 1..64
x = input : f32[N,K]
a = const {value=$alpha} : f32[]
s = mul x, a : f32[N,K]
g = sigmoid s : f32[N,K]
y = mul x, g : f32[N,K]
return y=y
`

// vendor returns a model of one op of a vendor's domain.
func vendor(domain, op string, attrs ...*onnxpb.AttributeProto) *onnxpb.ModelProto {
	m := model(op, attrs...)
	m.Graph.Node[0].Domain = &domain
	m.OpsetImport = append(m.OpsetImport, &onnxpb.OperatorSetIdProto{Domain: &domain, Version: proto.Int64(1)})
	return m
}

func floatAttr(name string, v float32) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: &name, F: &v, Type: onnxpb.AttributeProto_FLOAT.Enum()}
}

func intAttr(name string, v int64) *onnxpb.AttributeProto {
	return &onnxpb.AttributeProto{Name: &name, I: &v, Type: onnxpb.AttributeProto_INT.Enum()}
}

// TestCustom imports an op that a definition gives a meaning, and compares it with the formula.
func TestCustom(t *testing.T) {
	var l custom.Library
	if err := l.Parse("gate.rlxop", gateOp); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		attrs []*onnxpb.AttributeProto
		alpha float64
	}{
		{nil, 1},
		{[]*onnxpb.AttributeProto{floatAttr("alpha", 1.75), intAttr("exact", 0), intAttr("to", 1)}, 1.75},
		{[]*onnxpb.AttributeProto{intAttr("Alpha", 2)}, 2},
	} {
		m, err := importModel(t, vendor("com.acme", "GatedUnit", c.attrs...), Options{Custom: &l})
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Graph.Verify(); err != nil {
			t.Fatal(err)
		}
		x := tensor.NewArray(dtype.F32, 2, 3)
		for i := range x.Len() {
			x.Floats[i] = float64(i) - 2.5
		}
		out, err := interp.Run(m.Graph, nil, map[string]*tensor.Array{"x": x}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x.Len() {
			v := x.At(i)
			if got, want := out["y"].At(i), v/(1+math.Exp(-c.alpha*v)); math.Abs(got-want) > 1e-6 {
				t.Errorf("alpha %v, x %v: %v, want %v", c.alpha, v, got, want)
			}
		}
	}
}

// TestCustomErrors imports nodes that do not fit a definition.
func TestCustomErrors(t *testing.T) {
	var l custom.Library
	if err := l.Parse("gate.rlxop", gateOp); err != nil {
		t.Fatal(err)
	}
	two := vendor("com.acme", "GatedUnit")
	two.Graph.Node[0].Input = []string{"x", "x"}
	for _, c := range []struct {
		m    *onnxpb.ModelProto
		l    *custom.Library
		want string
	}{
		{vendor("com.acme", "GatedUnit"), nil,
			"op com.acme.GatedUnit is unknown; --op FILE can define it as op com.acme.gatedunit"},
		{vendor("com.acme", "Other"), &l, "op com.acme.Other is unknown; --op FILE can define it as op com.acme.other"},
		{vendor("com.acme", "GatedUnit", floatAttr("beta", 1)), &l,
			`unknown attribute "beta"; known: [alpha exact to]`},
		{vendor("com.acme", "GatedUnit", intAttr("exact", 2)), &l,
			`attribute "exact" is 2; want a value like its default`},
		{two, &l, "node n1 (GatedUnit): "},
	} {
		_, err := importModel(t, c.m, Options{Custom: c.l})
		typed(t, err, c.want)
	}
}
