package op_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestConstructors checks that axes counted from the end, sizes of -1, defaults and optional operands give canonical
// text.
func TestConstructors(t *testing.T) {
	g := ir.NewGraph("g", ir.Sym{Name: "N", Min: 1, Max: 8})
	typ := func(s string) ir.Type { return ir.MustType(s) }
	x := op.Input(g, "x", typ("f32[1,N+2,6]"))
	w, v := op.Param(g, "w", typ("bf16[6,6]")), op.Param(g, "v", typ("f32[6]"))
	img, k := op.Input(g, "img", typ("f32[1,8,8,4]")), op.Param(g, "k", typ("f32[4,2,3,3]"))
	idx := op.Input(g, "idx", typ("i64[3]"))

	y := op.FusedMatMul(x, w, v, x, op.FusedMatMulAttrs{TransB: true, Act: "gelu"})
	y = op.FusedResidualLayerNorm(y, x, v, v, 1e-6)
	y = op.FusedResidualRmsNorm(y, x, v, v, 1e-6)
	y = op.RmsNorm(op.LayerNorm(y, v, v, 1e-5), v, v, 1e-5)
	y = op.Attention(y, y, y, op.AttentionOperands{}, op.AttentionAttrs{Heads: 2, Layout: op.BSE})
	y = op.ElementwiseRegion("v0=add(i0,i1)", y, v)
	y = op.Softmax(y, -1)
	y = op.Reshape(y, ir.Shape{ir.Static(-1), ir.MustDim("N+2")})
	y = op.Reshape(y, ir.Shape{ir.Static(-1), ir.Static(3)})
	y = op.Concat(-1, y, y)
	y = op.Narrow(y, -1, 1, 4)
	y = op.ReduceMax(y, true, -1, 0)
	g.Return("y", op.Gather(op.Expand(y, ir.ShapeOf(5, 4)), idx, -1))

	c := op.Conv2D(img, k, nil, op.ConvAttrs{Layout: op.NHWC, Groups: 2})
	c = op.ConvTranspose2D(c, k, v4(g), op.ConvTransposeAttrs{Layout: op.NHWC, Groups: 2, Stride: []int{2, 2}})
	c = op.Where(op.Gt(c, op.Const(g, 0.5, typ("f32[]"))), c, op.Cast(op.Iota(g, -1, typ("i32[1,1,1,4]")), dtype.F32))
	c = op.Copy(op.Pad(op.Transpose(c, 0, 3, 1, 2), []int{0, 0, 1, 1}, []int{0, 0, 0, 0}, 1))
	g.Return("c", op.ReduceProd(c, false, 1, -1))

	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
	if err := g.Verify(); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(`
x = input : f32[1,N+2,6]
w = param : bf16[6,6]
v = param : f32[6]
img = input : f32[1,8,8,4]
k = param : f32[4,2,3,3]
idx = input : i64[3]
%6 = fused_matmul x, w, bias=v, residual=x {act="gelu", trans_b=true} : f32[1,N+2,6]
%7 = fused_residual_layer_norm %6, x, v, v {eps=1e-06} : f32[1,N+2,6]
%8 = fused_residual_rms_norm %7, x, v, v {eps=1e-06} : f32[1,N+2,6]
%9 = layer_norm %8, v, v {eps=1e-05} : f32[1,N+2,6]
%10 = rms_norm %9, v, v {eps=1e-05} : f32[1,N+2,6]
%11 = attention %10, %10, %10 {heads=2, layout="bse", mask="none"} : f32[1,N+2,6]
%12 = elementwise_region %11, v {expr="v0=add(i0,i1)"} : f32[1,N+2,6]
%13 = softmax %12 {axis=2} : f32[1,N+2,6]
%14 = reshape %13 : f32[6,N+2]
%15 = reshape %14 : f32[2*N+4,3]
%16 = concat %15, %15 {axis=1} : f32[2*N+4,6]
%17 = narrow %16 {axis=1, len=4, start=1} : f32[2*N+4,4]
%18 = reduce_max %17 {axes=[0,1], keep_dims=true} : f32[1,1]
%19 = expand %18 : f32[5,4]
%20 = gather %19, idx {axis=1} : f32[5,3]
%21 = conv2d img, k {groups=2, layout="nhwc"} : f32[1,6,6,4]
b = param : f32[4]
%23 = conv_transpose2d %21, k, bias=b {groups=2, layout="nhwc", stride=[2,2]} : f32[1,13,13,4]
%24 = const {value=0.5} : f32[]
%25 = gt %23, %24 : bool[1,13,13,4]
%26 = iota {axis=3} : i32[1,1,1,4]
%27 = cast %26 {to=f32} : f32[1,1,1,4]
%28 = where %25, %23, %27 : f32[1,13,13,4]
%29 = transpose %28 {perm=[0,3,1,2]} : f32[1,4,13,13]
%30 = pad %29 {after=[0,0,0,0], before=[0,0,1,1], value=1.0} : f32[1,4,14,14]
%31 = copy %30 : f32[1,4,14,14]
%32 = reduce_prod %31 {axes=[1,3]} : f32[1,14]
return y=%20, c=%32`)
	if _, got, _ := strings.Cut(g.String(), "sym N = 1..8\n"); strings.TrimSpace(got) != want {
		t.Errorf("got\n%s", got)
	}
}

// TestNormConstructors checks that gains may be [1,H] and that axes may be counted from the end.
func TestNormConstructors(t *testing.T) {
	g := ir.NewGraph("g")
	x, v, row := op.Input(g, "x", ir.MustType("f32[2,6,3]")), op.Param(g, "v", ir.MustType("f32[6]")),
		op.Param(g, "row", ir.MustType("f32[1,6]"))
	y := op.GroupNorm(x, row, v, 3, 1e-5)
	y = op.BatchNorm(op.InstanceNorm(y, v, row, 1e-5), v, v, row, v, 1e-5)
	y = op.LayerNorm(op.Transpose(y, 0, 2, 1), row, v, 1e-5)
	y = op.LogSoftmax(op.L2Norm(y, 1e-12, -1, 0), -2)
	i := op.Add(op.ArgMax(y, -1, false), op.ArgMin(y, 2, false))
	b := op.And(op.Any(op.Gt(y, y), true, -1, 1), op.All(op.Gt(y, y), true, -1, 1))
	g.Return("i", i)
	g.Return("b", b)
	g.Return("l", op.LogSumExp(y, false, -1))
	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(`
x = input : f32[2,6,3]
v = param : f32[6]
row = param : f32[1,6]
%3 = reshape row : f32[6]
%4 = group_norm x, %3, v {eps=1e-05, groups=3} : f32[2,6,3]
%5 = reshape row : f32[6]
%6 = instance_norm %4, v, %5 {eps=1e-05} : f32[2,6,3]
%7 = reshape row : f32[6]
%8 = batch_norm %6, v, v, %7, v {eps=1e-05} : f32[2,6,3]
%9 = transpose %8 {perm=[0,2,1]} : f32[2,3,6]
%10 = reshape row : f32[6]
%11 = layer_norm %9, %10, v {eps=1e-05} : f32[2,3,6]
%12 = l2_norm %11 {axes=[0,2], eps=1e-12} : f32[2,3,6]
%13 = log_softmax %12 {axis=1} : f32[2,3,6]
%14 = argmax %13 {axis=2} : i32[2,3]
%15 = argmin %13 {axis=2} : i32[2,3]
%16 = add %14, %15 : i32[2,3]
%17 = gt %13, %13 : bool[2,3,6]
%18 = any %17 {axes=[1,2], keep_dims=true} : bool[2,1,1]
%19 = gt %13, %13 : bool[2,3,6]
%20 = all %19 {axes=[1,2], keep_dims=true} : bool[2,1,1]
%21 = and %18, %20 : bool[2,1,1]
%22 = logsumexp %13 {axes=[2]} : f32[2,3]
return i=%16, b=%21, l=%22`)
	if _, got, _ := strings.Cut(g.String(), "\n"); strings.TrimSpace(got) != want {
		t.Errorf("got\n%s", got)
	}
}

func v4(g *ir.Graph) *ir.Node { return op.Param(g, "b", ir.MustType("f32[4]")) }

// TestElementwiseConstructors checks that each elementwise op has a constructor with its name that adds that op.
func TestElementwiseConstructors(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	defs := map[string]string{} // by name of the constructor: the op that it adds
	adds := regexp.MustCompile(
		`(?m)^func (\w+)\([^)]*\*ir\.Node\) \*ir\.Node \{ return \w+\.Graph\.Add\((\w+), NoAttrs\{\},`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range adds.FindAllStringSubmatch(string(text), -1) {
			defs[m[1]] = m[2]
		}
	}
	for _, def := range ir.Defs() {
		if !op.CanBeInRegion(def) || len(def.AttrNames()) > 0 {
			continue
		}
		name := ""
		for part := range strings.SplitSeq(def.Name, "_") {
			name += strings.ToUpper(part[:1]) + part[1:]
		}
		if defs[name] != name+"Def" {
			t.Errorf("%s: func %s adds %q; want %sDef", def.Name, name, defs[name], name)
		}
	}
	g := ir.NewGraph("g")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, 3))
	if n := op.GeluTanh(x); n.Op.Name != "gelu_tanh" {
		t.Errorf("GeluTanh adds %s", n.Op.Name)
	}
	if op.Activate(x, "") != x || op.Activate(x, "silu").Op != op.SiluDef {
		t.Error("Activate adds something else")
	}
	if op.Activate(x, "exp"); g.Err() == nil {
		t.Error("Activate takes exp")
	}
}

// TestFLOPs compares FLOPs with counts that were computed by hand.
func TestFLOPs(t *testing.T) {
	for line, want := range map[string]int64{
		"matmul a, b : f32[2,3,5]": 2 * 2 * 3 * 5 * 4, "softmax a : f32[2,3,4]": 7 * 24,
		"reduce_sum a {axes=[1]} : f32[2,4]": 24, "neg a : f32[2,3,4]": 24,
		"transpose a {perm=[0,2,1]} : f32[2,4,3]":                             0,
		`conv2d i, k {layout="nchw"} : f32[1,6,3,3]`:                          2 * 9 * 6 * 2 * 9,
		`conv_transpose2d i, t {layout="nchw"} : f32[1,3,6,6]`:                2 * 25 * 2 * 3 * 4,
		`attention a, a, a {heads=2, layout="bse", mask="none"} : f32[2,3,4]`: 2 * 2 * 9 * (4*2 + 7),
	} {
		g, err := ir.Parse(
			"a = input : f32[2,3,4]\nb = input : f32[4,5]\ni = input : f32[1,2,5,5]\nk = input : f32[6,2,3,3]\nt = input : f32[2,3,2,2]\ny = " +
				line)
		if err != nil {
			t.Fatal(err)
		}
		if n := g.Nodes[5]; n.Op.FLOPs(n.Attrs, n.InTypes(), n.Type) != want {
			t.Errorf("%s: %d FLOPs; want %d", line, n.Op.FLOPs(n.Attrs, n.InTypes(), n.Type), want)
		}
	}
}

// TestSymbolicLowering checks that the lowering of attention over a symbolic length is correct for every length.
func TestSymbolicLowering(t *testing.T) {
	for _, attrs := range []string{`mask="none"`, `mask="causal"`, `mask="sliding", window=1`} {
		g, err := ir.Parse(`sym N = 0..5
q = input : f32[2,N,6]
k = input : f32[2,N+3,6]
y = attention q, k, k {heads=2, layout="bse", ` + attrs + `} : f32[2,N,6]
return y=y`)
		if err != nil {
			t.Fatal(err)
		}
		lowered, err := g.Rebuild(func(out *ir.Graph, n *ir.Node, in []*ir.Node, _ func(*ir.Node) *ir.Node) *ir.Node {
			if n.Op == op.AttentionDef {
				return n.Op.LowerTo(out, n, in)[0]
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := lowered.Verify(); err != nil {
			t.Fatal(err)
		}
		for n := int64(0); n <= 5; n++ {
			in := interp.CaseInputs(
				ir.Case[any]{In: []ir.Type{ir.TypeOf(dtype.F32, 2, n, 6), ir.TypeOf(dtype.F32, 2, n+3, 6)}}, uint64(n))
			named, syms := map[string]*tensor.Array{"q": in[0], "k": in[1]}, map[string]int64{"N": n}
			want, err := interp.Run(g, syms, named, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := interp.Run(lowered, syms, named, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := interp.Compare(got["y"], want["y"], ir.Tolerance{Abs: 1e-6, Rel: 1e-6}); err != nil {
				t.Errorf("%s at N=%d: %v", attrs, n, err)
			}
		}
	}
}

// TestOperandIndices checks the constants for optional operands against the declarations.
func TestOperandIndices(t *testing.T) {
	listed := map[*ir.OpDef]int{}
	for _, c := range []struct {
		def  *ir.OpDef
		name string
		k    int
	}{
		{op.AttentionDef, "mask", op.AttentionMask}, {op.AttentionDef, "position", op.AttentionPosition},
		{op.AttentionDef, "kv_len", op.AttentionKVLen}, {op.AttentionDef, "sinks", op.AttentionSinks},
		{op.AttentionDef, "sequence", op.AttentionSequence}, {op.AttentionDef, "pages", op.AttentionPages}, {op.KVAppendDef, "sequence", op.KVAppendSequence},
		{op.AttentionBackwardDef, "mask", op.AttentionMask + op.AttentionBackwardShift},
		{op.AttentionBackwardDef, "position", op.AttentionPosition + op.AttentionBackwardShift},
		{op.AttentionBackwardDef, "kv_len", op.AttentionKVLen + op.AttentionBackwardShift},
		{op.AttentionBackwardDef, "sinks", op.AttentionSinks + op.AttentionBackwardShift},
		{op.CausalConv1DDef, "bias", op.CausalConv1DBias}, {op.CausalConv1DDef, "pad", op.CausalConv1DPad},
		{op.Conv1DDef, "bias", op.ConvBias}, {op.Conv2DDef, "bias", op.ConvBias}, {op.Conv3DDef, "bias", op.ConvBias},
		{op.ConvTranspose1DDef, "bias", op.ConvBias}, {op.ConvTranspose2DDef, "bias", op.ConvBias},
		{op.ConvTranspose3DDef, "bias", op.ConvBias},
		{op.DequantMatMulDef, "scale", op.DequantMatMulScale}, {op.DequantMatMulDef, "zero", op.DequantMatMulZero},
		{op.DequantMatMulDef, "global", op.DequantMatMulGlobal},
		{op.FakeQuantizeDef, "scale", op.FakeQuantizeScale},
		{op.FusedMatMulDef, "bias", op.FusedMatMulBias}, {op.FusedMatMulDef, "residual", op.FusedMatMulResidual},
		{op.FusedConv1DDef, "bias", op.ConvBias}, {op.FusedConv1DDef, "addend", op.FusedConvAddend},
		{op.FusedConv1DDef, "residual", op.FusedConvResidual},
		{op.FusedConv2DDef, "bias", op.ConvBias}, {op.FusedConv2DDef, "addend", op.FusedConvAddend},
		{op.FusedConv2DDef, "residual", op.FusedConvResidual},
		{op.FusedConv3DDef, "bias", op.ConvBias}, {op.FusedConv3DDef, "addend", op.FusedConvAddend},
		{op.FusedConv3DDef, "residual", op.FusedConvResidual},
		{op.RecurrentDef, "bias", op.RecurrentBias}, {op.RecurrentDef, "h", op.RecurrentH},
		{op.RecurrentDef, "c", op.RecurrentC}, {op.RecurrentDef, "lengths", op.RecurrentLengths},
		{op.RecurrentDef, "p", op.RecurrentPeephole},
		{op.GatedDeltaNetDef, "state", op.GatedDeltaNetState}, {op.SelectiveScanDef, "state", op.SelectiveScanState},
		{op.GatedDeltaNetBackwardDef, "state", op.GatedDeltaNetBackwardState},
		{op.GatedDeltaNetBackwardDef, "dfinal", op.GatedDeltaNetBackwardDFinal},
		{op.GridAttentionDef, "rh", op.GridAttentionRH}, {op.GridAttentionDef, "rw", op.GridAttentionRW},
		{op.QMatMulDef, "bias", op.QMatMulBias}, {op.QConv2DDef, "bias", op.QMatMulBias},
		{op.RopeDef, "cos", op.RopeCos}, {op.RopeDef, "sin", op.RopeSin},
		{op.RopeDef, "frequencies", op.RopeFrequencies}, {op.RopeDef, "position", op.RopePositions},
		{op.RopeBackwardDef, "cos", op.RopeCos}, {op.RopeBackwardDef, "sin", op.RopeSin},
		{op.RopeBackwardDef, "frequencies", op.RopeFrequencies}, {op.RopeBackwardDef, "position", op.RopePositions},
		{op.SampleDef, "min_p", op.SampleMinP},
	} {
		listed[c.def]++
		if got := c.def.Operand(c.name); got != c.k || !c.def.Operands[got].Optional {
			t.Errorf("%s: operand %s is number %d of %s; the constant is %d", c.def.Name, c.name, got,
				c.def.Signature(), c.k)
		}
	}
	for _, def := range ir.Defs() {
		if want := len(def.Operands) - def.Required(); !def.Block && listed[def] != want {
			t.Errorf("%s has %d optional operands, of %s; the test lists %d", def.Name, want, def.Signature(),
				listed[def])
		}
	}
}
