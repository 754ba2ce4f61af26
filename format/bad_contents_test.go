package format

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// In the test artifact, graph 2 is mlpText: 0 x, 1 gain, 2 w, 3 b, 4 matmul h, 5 add hb (over h), 6 relu act (over hb),
// 7 reshape half (view), 8 mul scaled (over half), 9 reduce_sum sum. Graph 0 and 1 are headText: 0 x, 1 w, 2 matmul y,
// 3 softmax z, 4 const c, 5 mul d (over z). Graph 3 is blendText: 0 x, 1 w, 2 relu r, 3 neg q, 4 matmul t, 5
// fused_matmul p (over q), 6 add s. Graph 6 is pickText: 0 x, 1 neg n, 2 top_k, 3 its result v, 4 its result i, 5
// top_k, 6 its result w, which nothing reads, 7 its result j, 8 relu r (over v), 9 cast f, 10 add s. Graph 7 is
// appendText: 0 rows, 1 pos, 2 cache, 3 count (both states), 4 reduce_sum before, 5 kv_append next, 6 reduce_sum after,
// 7 add both, 8 add n. Graph 8 is peekText: 0 cache, 1 reduce_sum sum. Graph 9 is applyText, with the bodies 0 half and
// 1 whole: 0 x, 1 test_apply y, 2 test_apply z. Graph 10 is sumsText: 0 x, 1 g, 2 exp a, 3 tanh b, 4
// fused_add_rms_norm, 5 its result s (over a), 6 its result y (over b), 7 mul p (over s), 8 softmax z.

func TestBadEncodings(t *testing.T) {
	body := func(k Kind, change func([]byte) []byte) func(*forgery) {
		return func(f *forgery) {
			f.body = func(have Kind, b []byte) []byte {
				if have == k {
					b = change(b)
				}
				return b
			}
		}
	}
	replace := func(k Kind, from, to string) func(*forgery) {
		return body(k, func(b []byte) []byte {
			if !bytes.Contains(b, []byte(from)) {
				t.Fatalf("%v does not hold %q", k, from)
			}
			return bytes.Replace(b, []byte(from), []byte(to), 1)
		})
	}
	items := func(k Kind, n uint64) func(*forgery) {
		return func(f *forgery) { f.table = entry(k, func(s *Section) { s.Items = n }) }
	}
	opset := "\xa5opset\x01"
	testBadFiles(t, []badFile{
		{13, "two values", body(KindPlan, func(b []byte) []byte { return append(b, 0) })},
		{13, "nil", replace(KindMeta, opset, "\xa5opset\xc0")},
		{13, "float32", replace(KindMeta, opset, "\xa5opset\xca\x3f\x80\x00\x00")},
		{13, "extension", replace(KindMeta, opset, "\xa5opset\xd4\x01\x01")},
		{13, "interned string", replace(KindMeta, opset, "\xa5opset\xd4\x80\x01")},
		{13, "unused byte", replace(KindMeta, opset, "\xa5opset\xc1")},
		{13, "long integer", replace(KindMeta, opset, "\xa5opset\xcc\x01")},
		{13, "signed form of a positive integer", replace(KindMeta, opset, "\xa5opset\xd0\x01")},
		{13, "long string", replace(KindMeta, "\xa3mlp", "\xd9\x03mlp")},
		{13, "long list", replace(KindMeta, "\xa5pairs\x92", "\xa5pairs\xdc\x00\x02")},
		{13, "not UTF-8", replace(KindMeta, "\xa3mlp", "\xa3ml\xff")},
		{13, "key twice", replace(KindMeta, "\xa5model\xa3mlp\xa5opset", "\xa5model\xa3mlp\xa5model")},
		{13, "keys out of order", replace(KindMeta, "\xa5model", "\xa5zodel")},
		{13, "key that is a number", replace(KindMeta, opset, "\x05\x01")},
		{13, "NaN",
			replace(KindMeta, "\xa9threshold\xcb\x00\x00\x00\x00\x00\x00\x00\x00",
				"\xa9threshold\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00")},
		{14, "nothing", body(KindMeta, func(b []byte) []byte { return b[:1] })},
		{14, "deep", body(KindSched, func([]byte) []byte { return bytes.Repeat([]byte{0x91}, 1<<20) })},
		{14, "17 deep", body(KindSched, func([]byte) []byte { return append(bytes.Repeat([]byte{0x91}, 17), 0) })},
		{14, "count of 2^32-1", body(KindSched, func([]byte) []byte { return []byte("\xdd\xff\xff\xff\xff") })},
		{14, "map of 2^31",
			body(
				KindSched,
				func([]byte) []byte { return append([]byte("\xdf\x80\x00\x00\x00"), make([]byte, 999)...) })},
		{14, "string beyond the end", replace(KindMeta, "\xa3mlp", "\xdb\x7f\xff\xff\xffmlp")},
		{14, "bytes beyond the end", body(KindMeta, func([]byte) []byte { return []byte("\xc6\x00\xff\xff\xff") })},
		{15, "another type", replace(KindMeta, opset, "\xa5opset\xc3")},
		{15, "float for an integer", replace(KindMeta, opset, "\xa5opset\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00")},
		{15, "bytes for a string", replace(KindMeta, "\xa3mlp", "\xc4\x03mlp")},
		{15, "integer out of range", replace(KindMeta, opset, "\xa5opset\xcf\xff\xff\xff\xff\xff\xff\xff\xff")},
		{15, "integer of 2^31", replace(KindMeta, opset, "\xa5opset\xce\x80\x00\x00\x00")},
		{15, "negative", replace(KindMeta, opset, "\xa5opset\xff")},
		{15, "unknown key", replace(KindMeta, "\xa5opset", "\xa5optet")},
		{15, "list for a map",
			body(KindMeta, func([]byte) []byte { return []byte("\x99\x01\x01\x01\x01\x01\x01\x01\x01\x01") })},
		{15, "field missing",
			body(KindPlan, func([]byte) []byte { return []byte("\x93\x82\xa5arena\x00\xa2io\x00\x80\x80") })},
		{15, "digest of 31 bytes", func(f *forgery) {
			replace(KindMeta, "\xc4\x20\x00", "\xc4\x1f")(f)
		}},
		{15, "unknown task", replace(KindMeta, "\xa4kind\xa7segment", "\xa4kind\xa7segmeXt")},
		{15, "type that does not parse", replace(KindMeta, "\xa6f32[8]", "\xa6f33[8]")},
		{15, "257 pairs", func(f *forgery) { f.c.meta.Pairs = make([]Pair, MaxPairs+1) }},
		{15, "513 bytes of name", func(f *forgery) { f.c.meta.Model = strings.Repeat("x", MaxName+1) }},
		{15, "items of GRPH", items(KindGraph, 8)},
		{15, "items of META", items(KindMeta, 0)},
		{15, "items of CHNK", items(KindChunks, 2)},
		{15, "items of WGTS", items(KindWeight, math.MaxUint64)},
		{15, "5 fields of a place", replace(KindPlan, "\x94\x02\x00\x20\xff", "\x95\x02\x00\x20\xff\x00")},
		{16, "type with a space", replace(KindMeta, "\xa6f32[8]", "\xa7f32[ 8]")},
		{16, "dim with a sign", replace(KindMeta, "\xa6f32[8]", "\xa7f32[+8]")},
		{15, "dim that does not parse", replace(KindGraph, "\xa5shape\x92\xa1N", "\xa5shape\x92\xa2N+")},
		{15, "dim beyond the limits", replace(KindGraph, "\xa5shape\x92\xa1N", "\xa5shape\x92\xb1N*N*N*N*N*N*N*N*N")},
		{16, "dim in another order", replace(KindGraph, "\xa5shape\x92\xa1N", "\xa5shape\x92\xa5N-N+N")},
		{16, "number as a text", replace(KindGraph, "\xa5shape\x92\xa1N", "\xa5shape\x92\xa18")},
		{16, "dim with a factor of 1", replace(KindMeta, "\xa8f32[N,8]", "\xaaf32[1*N,8]")},
	})
}

func TestBadContents(t *testing.T) {
	node := func(i int, change func(*rawNode)) func(*forgery) {
		return func(f *forgery) { change(&f.c.graphs[2].nodes[i]) }
	}
	tensor := func(i int, change func(*rawTensor)) func(*forgery) {
		return func(f *forgery) { change(&f.c.tensors[i]) }
	}
	meta := func(change func(*Meta)) func(*forgery) { return func(f *forgery) { change(f.c.meta) } }
	graph := func(change func(*rawGraph)) func(*forgery) {
		return func(f *forgery) { change(&f.c.graphs[2]) }
	}
	pick := func(i int, change func(*rawNode)) func(*forgery) {
		return func(f *forgery) { change(&f.c.graphs[6].nodes[i]) }
	}
	blend := func(change func(*rawNode)) func(*forgery) { // a fused_matmul with a residual
		return func(f *forgery) { change(&f.c.graphs[3].nodes[5]) }
	}
	dims := ir.ShapeOf
	testBadFiles(t, []badFile{
		{17, "control character", meta(func(m *Meta) { m.Model = "a\x1b[2Jb" })},
		{17, "control character first", meta(func(m *Meta) { m.Producer.Version = "\x00" })},
		{17, "line end in a note", meta(func(m *Meta) { m.Pairs[1].Value = "a\nb" })},
		{17, "pairs out of order", meta(func(m *Meta) { slices.Reverse(m.Pairs) })},
		{17, "pair twice", meta(func(m *Meta) { m.Pairs[1].Key = m.Pairs[0].Key })},
		{17, "method twice", meta(func(m *Meta) { m.Methods[1].Name = m.Methods[0].Name })},
		{17, "traversal: a path for a method in META", meta(func(m *Meta) { m.Methods[1].Name = "../victim/m" })},
		{17, "traversal: a path for a method in GRPH", graph(func(g *rawGraph) { g.method = "../victim/m" })},
		{17, "method in upper case", graph(func(g *rawGraph) { g.method = "Decode" })},
		{17, "program twice", func(f *forgery) { f.c.graphs[1].target = "cpu" }},
		{17, "control character in a target", graph(func(g *rawGraph) { g.target = "cpu\x1b[2J" })},
		{17, "control character in an op that was rewritten",
			graph(func(g *rawGraph) { g.rewritten = []program.OpCount{{Op: "gelu\x1b[2J", Count: 1}} })},
		{17, "op that was rewritten, twice",
			graph(
				func(g *rawGraph) { g.rewritten = []program.OpCount{{Op: "gelu", Count: 1}, {Op: "gelu", Count: 1}} })},
		{17, "ops of the reference out of order",
			graph(
				func(g *rawGraph) { g.reference = []program.OpCount{{Op: "silu", Count: 1}, {Op: "gelu", Count: 1}} })},
		{17, "target without a name", graph(func(g *rawGraph) { g.target = "" })},
		{17, "node twice", node(4, func(n *rawNode) { n.name = "x" })},
		{17, "node with a space", node(4, func(n *rawNode) { n.name = "a b" })},
		{17, "input without a name", node(0, func(n *rawNode) { n.name = "" })},
		{17, "output twice", graph(func(g *rawGraph) { g.outputs[1].name = "scaled" })},
		{17, "weight twice", tensor(1, func(x *rawTensor) { x.name = "b" })},
		{17, "weight without a name", tensor(1, func(x *rawTensor) { x.name = "" })},
		{17, "symbol twice", graph(func(g *rawGraph) { g.syms = append(g.syms, g.syms[0]) })},
		{17, "symbol that is a formula", graph(func(g *rawGraph) { g.syms[0].Name = "2*N" })},
		{18, "unknown element type", node(4, func(n *rawNode) { n.typ.dtype = "f33" })},
		{18, "rank 9", node(4, func(n *rawNode) { n.typ.shape = dims(1, 1, 1, 1, 1, 1, 1, 1, 1) })},
		{18, "negative dim", node(4, func(n *rawNode) { n.typ.shape = dims(-1, 16) })},
		{18, "dim of 2^40+1", node(1, func(n *rawNode) { n.typ.shape = dims(ir.MaxDim + 1) })},
		{18, "product wraps to 0", node(1, func(n *rawNode) { n.typ.shape = dims(1<<32, 1<<32) })},
		{18, "product wraps behind a zero", node(1, func(n *rawNode) { n.typ.shape = dims(0, 1<<32, 1<<32) })},
		{18, "2^42+4 bytes", node(1, func(n *rawNode) { n.typ.shape = dims(1<<40 + 1) })},
		{20, "weight with bytes but without elements", tensor(0, func(x *rawTensor) { x.typ.shape = dims(0, 4) })},
		{18, "dim negative at the symbol's least", node(0, func(n *rawNode) { n.typ.shape[0] = ir.MustDim("N-2") })},
		{18, "dim that is too large at the symbol's largest",
			node(0, func(n *rawNode) { n.typ.shape[0] = ir.MustDim("17592186044416*N*N*N") })},
		{18, "product of dims that is too large",
			node(
				0, func(n *rawNode) { n.typ.shape = ir.Shape{ir.MustDim("1099511627776/3*N"), ir.MustDim("1024*N")} })},
		{19, "weight of 4 bits", tensor(0, func(x *rawTensor) { x.typ.dtype = "i4" })},
		{19, "blocks", tensor(1, func(x *rawTensor) { x.typ.dtype = "iq2_xs" })},
		{19, "value of 1 bit", node(4, func(n *rawNode) { n.typ.dtype = "u1" })},
		{20, "size", tensor(0, func(x *rawTensor) { x.size++ })},
		{20, "larger type", tensor(1, func(x *rawTensor) { x.typ.shape = dims(1<<20, 8) })},
		{20, "first not at the start", func(f *forgery) {
			f.c.tensors[0].offset = 64
			clear(f.weights[:64])
		}},
		{20, "misaligned", tensor(1, func(x *rawTensor) { x.offset += 4 })},
		{20, "overlap", tensor(1, func(x *rawTensor) { x.offset = 0 })},
		{20, "hole", tensor(1, func(x *rawTensor) { x.offset += TensorAlign })},
		{20, "order", func(f *forgery) { slices.Reverse(f.c.tensors) }},
		{20, "bytes after the last", func(f *forgery) { f.weights = append(f.weights, make([]byte, 256)...) }},
		{20, "last cut short", func(f *forgery) { f.weights = f.weights[:len(f.weights)-4] }},
		{20, "padding", func(f *forgery) { f.weights[100] = 1 }},
		{15, "no entries", func(f *forgery) { f.c.tensors = nil }},
		{21, "quantization", tensor(0, func(x *rawTensor) { x.quant = "q8_0" })},
		{21, "another", tensor(1, func(x *rawTensor) { x.quant = " " })},
		{22, "op", node(6, func(n *rawNode) { n.op = "relux" })},
		{22, "block op", node(6, func(n *rawNode) { n.op = "linear" })},
		{22, "operand too few", node(5, func(n *rawNode) { n.in = n.in[:1] })},
		{22, "operand of an input", node(1, func(n *rawNode) { n.in = []int64{0} })},
		{22, "operand too many", node(6, func(n *rawNode) { n.in = append(n.in, 0) })},
		{22, "operand without a name", blend(func(n *rawNode) { n.in, n.optional = append(n.in, 3), nil })},
		{22, "unknown operand", blend(func(n *rawNode) { n.optional[0].name = "extra" })},
		{22, "name of a required operand", blend(func(n *rawNode) { n.optional[0].name = "w" })},
		{22, "optional operand twice", blend(func(n *rawNode) { n.optional = append(n.optional, n.optional[0]) })},
		{22, "optional operands out of order",
			blend(func(n *rawNode) { n.optional = append(n.optional, rawOptional{"bias", 3}) })},
		{22, "optional operand of an op without any",
			node(6, func(n *rawNode) { n.optional = []rawOptional{{"x", 0}} })},
		{23, "optional operand past the end", blend(func(n *rawNode) { n.optional[0].node = 60 })},
		{24, "optional operand that is later", blend(func(n *rawNode) { n.optional[0].node = 5 })},
		{26, "optional operand of another type", blend(func(n *rawNode) { n.optional[0].node = 4 })},
		{22, "attribute missing", node(4, func(n *rawNode) { n.attrs = n.attrs[:1] })},
		{22, "attribute too many",
			node(6, func(n *rawNode) { n.attrs = append(n.attrs, ir.Attr{Name: "a", Value: true}) })},
		{22, "attribute twice", node(4, func(n *rawNode) { n.attrs[0] = n.attrs[1] })},
		{22, "attributes out of order", node(4, func(n *rawNode) { n.attrs[0], n.attrs[1] = n.attrs[1], n.attrs[0] })},
		{22, "attribute of another type", node(4, func(n *rawNode) { n.attrs[0].Value = int64(1) })},
		{22, "integer for a float", func(f *forgery) { f.c.graphs[0].nodes[4].attrs[0].Value = int64(1) }},
		{22, "element type for a float", func(f *forgery) { f.c.graphs[0].nodes[4].attrs[0].Value = rawDType("f32") }},
		{22, "newer opset", meta(func(m *Meta) { m.Opset = Opset + 1 })},
		{22, "opset 0", meta(func(m *Meta) { m.Opset = 0 })},
		{23, "operand past the end", node(6, func(n *rawNode) { n.in[0] = 10 })},
		{23, "operand 2^63-1", node(6, func(n *rawNode) { n.in[0] = math.MaxInt64 })},
		{18, "result without a type", pick(3, func(n *rawNode) { n.typ = rawType{} })},
		{23, "operand that is an op with several results", pick(8, func(n *rawNode) { n.in[0] = 2 })},
		{24, "another op in place of a result",
			pick(4, func(n *rawNode) { n.op, n.attrs, n.in[0], n.typ.dtype = "neg", nil, 3, "f32" })},
		{24, "result twice", pick(4, func(n *rawNode) { n.attrs[0].Value = int64(0) })},
		{24, "result -2^63", pick(3, func(n *rawNode) { n.attrs[0].Value = int64(math.MinInt64) })},
		{24, "result of the op before", pick(6, func(n *rawNode) { n.in[0] = 2 })},
		{24, "one result more", pick(8, func(n *rawNode) {
			n.op, n.in[0], n.attrs = "result", 5, []ir.Attr{{Name: "index", Value: int64(2)}}
		})},
		{24, "result of a value", pick(8, func(n *rawNode) {
			n.op, n.attrs = "result", []ir.Attr{{Name: "index", Value: int64(0)}}
		})},
		{24, "last result missing", func(f *forgery) { f.c.graphs[6].nodes = f.c.graphs[6].nodes[:7] }},
		{26, "type of an op with several results", pick(2, func(n *rawNode) { n.typ.dtype = "f32" })},
		{26, "dims of an op with several results", pick(2, func(n *rawNode) { n.typ.shape = dims(3, 8) })},
		{26, "name of an op with several results", pick(2, func(n *rawNode) { n.name = "t" })},
		{26, "another type of a result", pick(4, func(n *rawNode) { n.typ.dtype = "u32" })},
		{26, "k beyond the axis", pick(2, func(n *rawNode) { n.attrs[1].Value = int64(9) })},
		{26, "indices of bytes", pick(2, func(n *rawNode) { n.attrs[0].Value = rawDType("u8") })},
		{26, "cast to nothing", pick(9, func(n *rawNode) { n.attrs[0].Value = rawDType("") })},
		{27, "output that is an op with several results", func(f *forgery) { f.c.graphs[6].outputs[0].node = 2 }},
		{23, "weight that is not there", func(f *forgery) { f.c.graphs[0].nodes[1].name = "v" }},
		{24, "operand is itself", node(6, func(n *rawNode) { n.in[0] = 6 })},
		{24, "operand is later", node(6, func(n *rawNode) { n.in[0] = 8 })},
		{24, "operand is the last", node(4, func(n *rawNode) { n.in[1] = 9 })},
		{25, "subgraphs", graph(func(g *rawGraph) { g.nesting = 1 })},
		{25, "many", graph(func(g *rawGraph) { g.nesting = math.MaxInt32 })},
		{26, "another shape", node(5, func(n *rawNode) { n.typ.shape = dims(1, 16) })},
		{26, "another element type", node(5, func(n *rawNode) { n.typ.dtype = "f16" })},
		{26, "operands that do not fit", node(4, func(n *rawNode) { n.attrs[1].Value = false })},
		{26, "axis out of range", node(9, func(n *rawNode) { n.attrs[0].Value = []int64{3} })},
		{26, "axis -2^63", node(9, func(n *rawNode) { n.attrs[0].Value = []int64{math.MinInt64} })},
		{26, "reshape to another size", node(7, func(n *rawNode) { n.typ.shape[2] = ir.Static(9) })},
		{26, "weight of another shape", node(3, func(n *rawNode) { n.typ.shape = dims(1, 16) })},
		{27, "output past the end", graph(func(g *rawGraph) { g.outputs[0].node = 10 })},
		{27, "no outputs, nor in the signature",
			func(f *forgery) { f.c.graphs[2].outputs, f.c.meta.Methods[1].Outputs = nil, nil }},
		{27, "no outputs", graph(func(g *rawGraph) { g.outputs = nil })},
		{27, "outputs the other way round", meta(func(m *Meta) { slices.Reverse(m.Methods[1].Outputs) })},
		{27, "input of another type", meta(func(m *Meta) { m.Methods[1].Inputs[1].Type = ir.MustType("f32[9]") })},
		{27, "input of another name", meta(func(m *Meta) { m.Methods[0].Inputs[0].Name = "image" })},
		{27, "input missing", meta(func(m *Meta) { m.Methods[1].Inputs = m.Methods[1].Inputs[:1] })},
		{27, "another range", meta(func(m *Meta) { m.Methods[1].Syms[0].Max++ })},
		{27, "method without a program", meta(func(m *Meta) { m.Methods = append(m.Methods, Method{Name: "extra"}) })},
		{27, "split without a method", func(f *forgery) { f.c.splits[0].method = "chains" }},
		{27, "program without a method", meta(func(m *Meta) { m.Methods = m.Methods[:1] })},
		{28, "symbol of a method in segments that is not there",
			meta(func(m *Meta) { m.Methods[len(m.Methods)-1].Inputs[1].Type = ir.MustType("i32[K]") })},
		{28, "symbol without values", graph(func(g *rawGraph) { g.syms[0].Min = 5 })},
		{28, "negative symbol", graph(func(g *rawGraph) { g.syms[0].Min = -1 })},
		{28, "symbol beyond 2^40", graph(func(g *rawGraph) { g.syms[0].Max = ir.MaxDim + 1 })},
		{28, "symbol that is not there", node(0, func(n *rawNode) { n.typ.shape[0] = ir.MustDim("K") })},
		{28, "symbol inside a quotient that is not there",
			node(0, func(n *rawNode) { n.typ.shape[0] = ir.MustDim("2*N+(N+K)/3") })},
	})
}

// TestBadBodies breaks graphs that attributes refer to.
func TestBadBodies(t *testing.T) {
	apply := func(change func(g *rawGraph)) func(*forgery) {
		return func(f *forgery) { change(&f.c.graphs[9]) }
	}
	ref := func(n int64) func(*forgery) {
		return apply(func(g *rawGraph) { g.nodes[1].attrs[0].Value = rawRef(n) })
	}
	body := func(change func(b *rawBody)) func(*forgery) { return apply(func(g *rawGraph) { change(&g.bodies[0]) }) }
	// deep makes a chain of n bodies, each of which the next refers to.
	deep := func(n, nesting int64) func(*forgery) {
		return apply(func(g *rawGraph) {
			whole := g.bodies[1]
			g.bodies = g.bodies[:1]
			for i := range n - 1 {
				b := whole
				b.name = strings.Repeat("d", int(i)+1)
				b.nodes = slices.Clone(whole.nodes)
				b.nodes[1].attrs = []ir.Attr{{Name: "body", Value: rawRef(i)}, {Name: "other", Value: rawRef(-1)}}
				g.bodies = append(g.bodies, b)
			}
			g.nodes[1].attrs[0].Value, g.nodes[1].attrs[1].Value, g.nesting = rawRef(n-1), rawRef(0), nesting
		})
	}
	f := forge(t)
	deep(ir.MaxNesting, ir.MaxNesting)(f)
	if _, err := verifyBytes(f.file()); err != nil {
		t.Fatalf("bodies that nest %d deep: %v", ir.MaxNesting, err)
	}
	testBadFiles(t, []badFile{
		{15, "an attribute with another field", func(f *forgery) {
			f.body = func(k Kind, b []byte) []byte {
				return bytes.Replace(b, []byte("\x81\xa5graph\x00"), []byte("\x81\xa5grapf\x00"), 1)
			}
		}},
		{15, "body -2", ref(-2)},
		{15, "nodes of graph and bodies together", apply(func(g *rawGraph) {
			g.bodies[0].nodes, g.nodes = make([]rawNode, MaxNodes/2+1), make([]rawNode, MaxNodes/2)
		})},
		{15, "operands of graph and bodies together", apply(func(g *rawGraph) {
			half := slices.Repeat([]rawNode{{in: make([]int64, MaxOperands)}}, MaxAllOperands/MaxOperands/2)
			g.bodies[0].nodes, g.nodes = append(half[:len(half):len(half)], rawNode{in: make([]int64, 1)}), half
		})},
		{17, "two bodies of one name", apply(func(g *rawGraph) { g.bodies[1].name = "half" })},
		{17, "body with the name of the method", body(func(b *rawBody) { b.name = "apply" })},
		{17, "body without a name", body(func(b *rawBody) { b.name = "" })},
		{17, "two nodes of one name in a body", body(func(b *rawBody) { b.nodes[2].name = "b" })},
		{18, "element type in a body", body(func(b *rawBody) { b.nodes[1].typ.dtype = "f33" })},
		{22, "unknown op in a body", body(func(b *rawBody) { b.nodes[1].op = "negg" })},
		{22, "block in a body", body(func(b *rawBody) { b.nodes[1].op = "linear" })},
		{22, "graph for a bool", apply(func(g *rawGraph) {
			g.nodes[2].op, g.nodes[2].in = "matmul", []int64{0, 1}
			g.nodes[2].attrs = []ir.Attr{{Name: "trans_a", Value: rawRef(0)}, {Name: "trans_b", Value: false}}
		})},
		{22, "bool for a graph", apply(func(g *rawGraph) { g.nodes[1].attrs[0].Value = true })},
		{22, "element type for a graph", apply(func(g *rawGraph) { g.nodes[1].attrs[0].Value = rawDType("f32") })},
		{23, "operand past the end of a body", body(func(b *rawBody) { b.nodes[1].in[0] = 3 })},
		{24, "operand in a body that comes later", body(func(b *rawBody) { b.nodes[1].in[0] = 2 })},
		{25, "body past the end", ref(2)},
		{25, "body 2^31-1", ref(math.MaxInt32)},
		{25, "a body that refers to itself",
			apply(func(g *rawGraph) { g.bodies[1].nodes[1].attrs[0].Value = rawRef(1) })},
		{25, "a body that refers to a later one",
			apply(func(g *rawGraph) { g.bodies[0], g.bodies[1] = g.bodies[1], g.bodies[0] })},
		{25, "a body that nothing refers to", apply(func(g *rawGraph) {
			g.nodes[1].attrs[1].Value, g.nesting = rawRef(-1), 1
		})},
		{25, "no bodies", apply(func(g *rawGraph) { g.bodies = nil })},
		{25, "nesting is too low", apply(func(g *rawGraph) { g.nesting = 1 })},
		{25, "nesting is too high", apply(func(g *rawGraph) { g.nesting = 3 })},
		{25, "bodies that nest too deep", deep(ir.MaxNesting+1, ir.MaxNesting)},
		{25, "bodies that nest too deep and say so", deep(ir.MaxNesting+1, ir.MaxNesting+1)},
		{25, "too many nodes with each use of a body", apply(func(g *rawGraph) {
			many := func(n int, like rawNode) (list []rawNode) {
				for range n {
					like.name = ""
					list = append(list, like)
				}
				return list
			}
			g.bodies[0].nodes = append(g.bodies[0].nodes, many(1<<10, g.bodies[0].nodes[1])...)
			g.bodies[1].nodes = append(g.bodies[1].nodes, many(1<<10, g.bodies[1].nodes[1])...)
		})},
		{26, "weight of another type in a body", body(func(b *rawBody) {
			b.nodes[1] = rawNode{op: "param", name: "w", typ: rawType{"f32", ir.ShapeOf(16, 8)}}
		})},
		{25, "state in a body", body(func(b *rawBody) {
			b.nodes[1] = rawNode{op: "state", name: "s", typ: rawType{"f32", ir.ShapeOf(2)},
				attrs: []ir.Attr{{Name: "init", Value: 0.0}}}
		})},
		{26, "another type in a body", body(func(b *rawBody) { b.nodes[1].typ.dtype = "f16" })},
		{26, "body with other inputs than the op gives", apply(func(g *rawGraph) {
			g.bodies[0].nodes[1] = rawNode{op: "input", name: "b", typ: g.bodies[0].nodes[0].typ}
		})},
		{27, "body without outputs", body(func(b *rawBody) { b.outputs = nil })},
		{27, "output past the end of a body", body(func(b *rawBody) { b.outputs[0].node = 3 })},
		{28, "symbol of a body without values", body(func(b *rawBody) { b.syms[0].Min = 5 })},
		{26, "symbol of a body with another range", body(func(b *rawBody) { b.syms[0].Max++ })},
	})
}
