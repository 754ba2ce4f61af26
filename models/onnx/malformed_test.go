package onnx

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/models/onnx/onnxpb"
)

// nodes returns small models of testdata: for each op a few, with the last node of the op.
func nodes(t *testing.T) []*onnxpb.ModelProto {
	t.Helper()
	b, err := os.ReadFile("testdata/nodes.bin")
	if err != nil {
		t.Fatal(err)
	}
	var out []*onnxpb.ModelProto
	for r := bytes.NewReader(b); r.Len() > 0; {
		m := &onnxpb.ModelProto{}
		if err := protodelim.UnmarshalFrom(r, m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return slices.Concat(out, alike(t, out), sequenceModels())
}

// alike returns models of ops for which ONNX has no node test, from those of ops that take much the same.
func alike(t *testing.T, models []*onnxpb.ModelProto) (out []*onnxpb.ModelProto) {
	t.Helper()
	ints := func(name string, list ...int64) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: &name, Ints: list, Type: onnxpb.AttributeProto_INTS.Enum()}
	}
	for _, c := range []struct {
		op, like string
		attr     *onnxpb.AttributeProto
	}{
		{"GlobalLpPool", "GlobalAveragePool", nil},
		{"MaxRoiPool", "RoiAlign", ints("pooled_shape", 2, 2)},
		{"Multinomial", "Softmax", nil},
		{"RandomNormal", "Constant", ints("shape", 2, 3)},
		{"RandomNormalLike", "Identity", nil},
		{"RandomUniform", "Constant", ints("shape", 2, 3)},
		{"RandomUniformLike", "Identity", nil},
		{"com.microsoft.BiasAdd", "Where", nil},
		{"com.microsoft.DequantizeLinear", "DequantizeLinear", nil},
		{"com.microsoft.LayerNormalization", "LayerNormalization", nil},
		{"com.microsoft.QLinearAveragePool", "com.microsoft.QLinearGlobalAveragePool", ints("kernel_shape", 2, 2)},
		{"com.microsoft.QuantizeLinear", "QuantizeLinear", nil},
		{"com.microsoft.SimplifiedLayerNormalization", "SimplifiedLayerNormalization", nil},
		{"com.microsoft.TransposeMatMul", "com.microsoft.FusedMatMul", nil},
	} {
		for _, m := range models {
			n := lastNode(m)
			if functionKey(n.GetDomain(), n.GetOpType()) != opKey(c.like) {
				continue
			}
			m = proto.CloneOf(m)
			n = lastNode(m)
			domain, op, _ := strings.Cut(opKey(c.op), ".")
			if i := strings.LastIndexByte(c.op, '.'); i >= 0 {
				domain, op = c.op[:i], c.op[i+1:]
				m.OpsetImport = append(m.OpsetImport,
					&onnxpb.OperatorSetIdProto{Domain: &domain, Version: proto.Int64(1)})
			}
			n.OpType, n.Domain = &op, &domain
			if c.attr != nil {
				n.Attribute = append(n.Attribute, proto.CloneOf(c.attr))
			}
			out = append(out, m)
		}
	}
	return out
}

// TestDefinitions checks that each op that has a conversion has a definition and models for TestMalformed.
func TestDefinitions(t *testing.T) {
	count := map[string]int{}
	for _, m := range nodes(t) {
		count[functionKey(lastNode(m).GetDomain(), lastNode(m).GetOpType())]++
	}
	for key := range conversions {
		i := strings.LastIndexByte(key, '.')
		if definitionOf(key[:i], key[i+1:], math.MaxInt64) == nil {
			t.Errorf("%s has no definition; see bench/onnx/definitions.py", key)
		}
		if count[key] == 0 {
			t.Errorf("%s has no model in testdata/nodes.bin", key)
		}
	}
	for key := range rankRanges {
		if conversions[key] == nil {
			t.Errorf("ranks has %s, which has no conversion", key)
		}
	}
}

// TestMisfits checks the errors about nodes that do not fit the definitions of their ops.
func TestMisfits(t *testing.T) {
	attr := func(name string, kind onnxpb.AttributeProto_AttributeType, list ...int64) *onnxpb.AttributeProto {
		return &onnxpb.AttributeProto{Name: &name, Type: &kind, Ints: list}
	}
	ints := onnxpb.AttributeProto_INTS
	for _, c := range []struct {
		name   string
		inputs string
		m      *onnxpb.ModelProto
		want   string
	}{
		{"missing", "x", model("Conv"), "node n1 (Conv): input 1 (W) is missing; want at least 2 inputs"},
		{"left out", ",x", model("Conv"), "node n1 (Conv): input 0 (X) is missing"},
		{"too many", "x,x", model("Relu"), "node n1 (Relu): has 2 inputs; allowed are up to 1"},
		{"rank", "x,x", model("Conv"), "node n1 (Conv): input 0 (X) is f32[2,3]; want rank 3 to 5"},
		{"type", "x,x", model("Gather"),
			"node n1 (Gather): input 1 (indices) has elements of f32; allowed are i32 and i64"},
		{"attribute missing", "x", model("Concat"), "attribute axis is missing; the op has no default for it"},
		{"attribute type", "x", model("Softmax", attr("axis", ints, 1)), "attribute axis is of type ints; want int"},
		{"attribute number", "x", model("Transpose", attr("perm", ints, 1, -1)),
			"attribute perm has the number -1; allowed are 0 to 2147483647"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.m.Graph.Node[0].Input = strings.Split(c.inputs, ",")
			_, err := importModel(t, c.m, Options{})
			typed(t, err, c.want)
		})
	}
}

// TestMalformed changes nodes so that they break the definitions of their ops. An import succeeds or ends with an error
// that has a code; a panic in a conversion is a bug. It takes 5 seconds at most. RLX_MALFORMED=N changes each model N
// times:
//
//	RLX_MALFORMED=1000 go test -timeout 1h -run Malformed ./models/onnx
func TestMalformed(t *testing.T) {
	models := nodes(t)
	rounds, limit := 20, 5*time.Second
	if s := os.Getenv("RLX_MALFORMED"); s != "" {
		limit = time.Hour
		if _, err := fmt.Sscan(s, &rounds); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	path := filepath.Join(t.TempDir(), "m.onnx")
	seen := map[string]bool{}
	for round := range rounds {
		for i, m := range models {
			if ctx.Err() != nil {
				return
			}
			mu := mutation{r: rand.New(rand.NewPCG(uint64(round), uint64(i))), m: proto.CloneOf(m)}
			if round > 0 {
				mu.change()
			}
			if why := importMalformed(path, mu.m); why != "" && !seen[why] {
				seen[why] = true
				t.Errorf("model %d (%s), round %d: %s: %s", i, lastNode(m).GetOpType(), round,
					strings.Join(mu.did, "; "), why)
			}
		}
	}
}

func lastNode(m *onnxpb.ModelProto) *onnxpb.NodeProto {
	return m.Graph.Node[len(m.Graph.Node)-1]
}

// importMalformed imports a model. It returns why the outcome is wrong, or "".
func importMalformed(path string, m *onnxpb.ModelProto) (why string) {
	b, err := proto.Marshal(m)
	if err != nil {
		return err.Error()
	}
	defer func() {
		if r := recover(); r != nil {
			why = fmt.Sprintf("panics: %v%s", r, where(debug.Stack()))
		}
	}()
	start := time.Now()
	f, err := Decode(path, b)
	if err == nil {
		defer f.Close()
		var got *Model
		if got, err = Import(f, Options{}); err == nil {
			err = got.Graph.Verify()
			if err != nil {
				return "makes a graph that is wrong: " + err.Error()
			}
		}
	}
	if d := time.Since(start); d > 10*time.Second {
		return fmt.Sprintf("takes %v", d)
	}
	if _, ok := errors.AsType[*diag.Error](err); err != nil && !ok {
		return "ends with an error without a code: " + err.Error()
	}
	return ""
}

// where returns the lines of a stack that are in this module, from the panic on.
func where(stack []byte) string {
	var out []string
	after := string(stack)
	if i := strings.LastIndex(after, "\npanic("); i >= 0 {
		after = after[i:]
	}
	for line := range strings.Lines(after) {
		if i := strings.Index(line, ".go:"); i >= 0 && !strings.Contains(line, "runtime/") {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " +")
			out = append(out, filepath.Base(line))
		}
	}
	return " at " + strings.Join(out[:min(len(out), 4)], ", ")
}

// mutation changes a model.
type mutation struct {
	r   *rand.Rand
	m   *onnxpb.ModelProto
	did []string
}

func (u *mutation) change() {
	for range 1 + u.r.IntN(3) {
		n := lastNode(u.m)
		if u.r.IntN(4) == 0 {
			n = u.m.Graph.Node[u.r.IntN(len(u.m.Graph.Node))]
		}
		switch k := u.r.IntN(11); {
		case k < 1:
			u.changeInputs(n)
		case k < 4 && len(n.Attribute) > 0:
			u.changeAttribute(n)
		case k < 5 && len(u.m.Graph.Initializer) > 0:
			u.changeValues()
		case k < 6:
			u.changeVersion()
		case k < 7:
			u.changeType()
		case k == 10:
			u.changeDeclared(n)
		default:
			u.changeShape()
		}
	}
}

func (u *mutation) note(format string, args ...any) {
	u.did = append(u.did, fmt.Sprintf(format, args...))
}

// changeInputs leaves out, repeats and swaps inputs, and asks for other outputs.
func (u *mutation) changeInputs(n *onnxpb.NodeProto) {
	if len(n.Input) == 0 {
		return
	}
	i, j := u.r.IntN(len(n.Input)), u.r.IntN(len(n.Input))
	switch u.r.IntN(8) {
	case 0:
		n.Input[i] = ""
	case 5:
		n.Output = n.Output[:u.r.IntN(len(n.Output)+1)]
	case 6:
		if len(n.Output) > 0 {
			n.Output[u.r.IntN(len(n.Output))] = ""
		}
	case 1:
		n.Input = n.Input[:i]
	case 2:
		n.Input[i], n.Input[j] = n.Input[j], n.Input[i]
	case 3:
		n.Input[i] = n.Input[j]
	case 4:
		n.Input = append(n.Input, n.Input[i])
	default:
		n.Output = append(n.Output, "more")
	}
	u.note("inputs %q, outputs %q", n.Input, n.Output)
}

// extremes are numbers that attributes should not have.
var extremes = []int64{0, 1, -1, 2, 3, -2, 7, -7, 64, 1 << 14, math.MaxInt32, math.MinInt32, 1 << 40, math.MaxInt64,
	math.MinInt64}

func (u *mutation) extreme() int64 { return extremes[u.r.IntN(len(extremes))] }

// changeAttribute removes an attribute, or gives it another type, length or number.
func (u *mutation) changeAttribute(n *onnxpb.NodeProto) {
	i := u.r.IntN(len(n.Attribute))
	a := n.Attribute[i]
	switch u.r.IntN(8) {
	case 0:
		n.Attribute = slices.Delete(n.Attribute, i, i+1)
		u.note("no attribute %s", a.GetName())
		return
	case 1:
		kinds := []onnxpb.AttributeProto_AttributeType{0, 1, 2, 3, 4, 5, 6, 7, 8}
		*a = onnxpb.AttributeProto{Name: a.Name, Type: kinds[u.r.IntN(len(kinds))].Enum()}
		switch a.GetType() {
		case onnxpb.AttributeProto_INT:
			a.I = proto.Int64(u.extreme())
		case onnxpb.AttributeProto_INTS:
			a.Ints = []int64{u.extreme(), u.extreme()}
		}
	case 2:
		a.Ints = append(a.Ints, u.extreme())
	case 3:
		a.Ints = a.Ints[:u.r.IntN(len(a.Ints)+1)]
	default:
		switch {
		case len(a.Ints) > 0:
			a.Ints[u.r.IntN(len(a.Ints))] = u.extreme()
		case a.I != nil:
			a.I = proto.Int64(u.extreme())
		case a.F != nil:
			f := []float32{0, -1, float32(math.Inf(1)), float32(math.NaN()), 1e30}
			a.F = proto.Float32(f[u.r.IntN(len(f))])
		case a.S != nil:
			texts := []string{"", "X", "linear", "...ii,->j", "\xff,,"}
			a.S = []byte(texts[u.r.IntN(len(texts))])
		case a.T != nil:
			u.changeTensor(a.T)
		}
	}
	u.note("attribute %v", a)
}

// changeValues gives an initializer other numbers, or makes it an input.
func (u *mutation) changeValues() {
	g := u.m.Graph
	i := u.r.IntN(len(g.Initializer))
	t := g.Initializer[i]
	if u.r.IntN(3) > 0 {
		values, err := decodedInts(t)
		if err == nil && len(values) > 0 {
			values[u.r.IntN(len(values))] = u.extreme()
			setInts(t, values)
		}
		u.note("initializer %s is %v", t.GetName(), values)
		return
	}
	g.Initializer = slices.Delete(g.Initializer, i, i+1)
	in := &onnxpb.TypeProto_Tensor{ElemType: t.DataType, Shape: &onnxpb.TensorShapeProto{}}
	for _, d := range t.Dims {
		in.Shape.Dim = append(in.Shape.Dim, dim(d))
	}
	g.Input = append(g.Input, &onnxpb.ValueInfoProto{Name: t.Name,
		Type: &onnxpb.TypeProto{Value: &onnxpb.TypeProto_TensorType{TensorType: in}}})
	u.note("initializer %s is an input", t.GetName())
}

func dim(n int64) *onnxpb.TensorShapeProto_Dimension {
	return &onnxpb.TensorShapeProto_Dimension{Value: &onnxpb.TensorShapeProto_Dimension_DimValue{DimValue: n}}
}

// decodedInts returns the elements of a tensor as integers.
func decodedInts(p *onnxpb.TensorProto) ([]int64, error) {
	x, err := Tensor(p)
	if err != nil {
		return nil, err
	}
	a := x.Array()
	out := make([]int64, a.Len())
	for i := range out {
		out[i] = int64(a.At(i))
	}
	return out, nil
}

// setInts gives a tensor integers, in the field that its type asks for.
func setInts(p *onnxpb.TensorProto, values []int64) {
	*p = onnxpb.TensorProto{Name: p.Name, Dims: p.Dims, DataType: p.DataType}
	switch onnxpb.TensorProto_DataType(p.GetDataType()) {
	case onnxpb.TensorProto_FLOAT:
		for _, v := range values {
			p.FloatData = append(p.FloatData, float32(v))
		}
	case onnxpb.TensorProto_DOUBLE:
		for _, v := range values {
			p.DoubleData = append(p.DoubleData, float64(v))
		}
	case onnxpb.TensorProto_INT64:
		p.Int64Data = values
	case onnxpb.TensorProto_UINT64, onnxpb.TensorProto_UINT32:
		for _, v := range values {
			p.Uint64Data = append(p.Uint64Data, uint64(v))
		}
	default:
		for _, v := range values {
			p.Int32Data = append(p.Int32Data, int32(v))
		}
	}
}

// changeDeclared gives an output other axes or sizes, or takes inputs, outputs or nodes from a graph in an attribute.
func (u *mutation) changeDeclared(n *onnxpb.NodeProto) {
	for _, a := range n.Attribute {
		g := a.G
		if g == nil || u.r.IntN(4) == 0 {
			continue
		}
		switch k := u.r.IntN(4); {
		case k == 0 && len(g.Input) > 0:
			g.Input = g.Input[1:]
		case k == 1 && len(g.Output) > 0:
			g.Output = g.Output[1:]
		case k == 2 && len(g.Node) > 0:
			g.Node = g.Node[1:]
		case len(g.Node) > 0:
			u.changeInputs(g.Node[u.r.IntN(len(g.Node))])
		}
		u.note("graph %s is changed", a.GetName())
		return
	}
	out := u.m.Graph.Output
	tt := out[u.r.IntN(len(out))].Type.GetTensorType()
	if tt == nil || tt.Shape == nil {
		return
	}
	u.changeSizes(tt.Shape)
	u.note("an output has shape %v", tt.Shape.Dim)
}

func (u *mutation) changeSizes(s *onnxpb.TensorShapeProto) {
	var dims []int64
	for _, d := range s.Dim {
		dims = append(dims, d.GetDimValue())
	}
	s.Dim = nil
	for _, d := range u.dims(dims) {
		s.Dim = append(s.Dim, dim(d))
	}
}

func (u *mutation) changeVersion() {
	for _, s := range u.m.OpsetImport {
		if canonical(s.GetDomain()) == "" {
			s.Version = proto.Int64(int64(1 + u.r.IntN(26)))
			u.note("opset %d", s.GetVersion())
		}
	}
}

// changeType gives an input or initializer another element type.
func (u *mutation) changeType() {
	g := u.m.Graph
	t := proto.Int32(int32(1 + u.r.IntN(22)))
	if len(g.Input)+len(g.Initializer) == 0 {
		return
	}
	i := u.r.IntN(len(g.Input) + len(g.Initializer))
	if i < len(g.Input) {
		if tt := g.Input[i].Type.GetTensorType(); tt != nil {
			tt.ElemType = t
		}
		u.note("input %s has type %d", g.Input[i].GetName(), *t)
		return
	}
	p := g.Initializer[i-len(g.Input)]
	if values, err := decodedInts(p); err == nil {
		p.DataType = t
		setInts(p, values)
	}
	u.note("initializer %s has type %d", p.GetName(), *t)
}

// changeShape gives an input or initializer other axes or sizes.
func (u *mutation) changeShape() {
	g := u.m.Graph
	if len(g.Input)+len(g.Initializer) == 0 {
		return
	}
	i := u.r.IntN(len(g.Input) + len(g.Initializer))
	if i >= len(g.Input) {
		p := g.Initializer[i-len(g.Input)]
		u.changeTensor(p)
		u.note("initializer %s has shape %v", p.GetName(), p.Dims)
		return
	}
	tt := g.Input[i].Type.GetTensorType()
	if tt == nil || tt.Shape == nil {
		return
	}
	u.changeSizes(tt.Shape)
	if len(tt.Shape.Dim) > 0 && u.r.IntN(8) == 0 {
		tt.Shape.Dim[0].Value = &onnxpb.TensorShapeProto_Dimension_DimParam{DimParam: "open"}
	}
	u.note("input %s has shape %v", g.Input[i].GetName(), tt.Shape.Dim)
}

func (u *mutation) changeTensor(p *onnxpb.TensorProto) {
	values, err := decodedInts(p)
	if err != nil {
		return
	}
	p.Dims = u.dims(slices.Clone(p.Dims))
	size := int64(1)
	for _, d := range p.Dims {
		size *= d
	}
	for int64(len(values)) < size {
		values = append(values, 1)
	}
	setInts(p, values[:size])
}

func (u *mutation) dims(dims []int64) []int64 {
	at := u.r.IntN(len(dims) + 1)
	switch k := u.r.IntN(6); {
	case len(dims) == 0 || k == 0:
		return slices.Insert(dims, at, int64(u.r.IntN(3)))
	case k == 1:
		return dims[:0]
	case k < 4:
		at = min(at, len(dims)-1)
		return slices.Delete(dims, at, at+1)
	default:
		dims[min(at, len(dims)-1)] = int64(u.r.IntN(4))
		return dims
	}
}
