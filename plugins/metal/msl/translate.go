package msl

import (
	"fmt"
	"go/constant"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// translator is the state of one translation.
type translator struct {
	types     wgsl.Resolver
	functions map[string]*wgsl.Function
	scopes    wgsl.Scopes[value]
	used      map[string]bool // MSL names of the current function's variables
	result    *wgsl.Type      // of the current function, or nil
	helpers   map[string]bool // names in helperTexts that the text needs
	barrier   bool            // the text has a barrier
	matrices  wgsl.Pos        // of a call of a matrix function, or zero
	out       strings.Builder
	indent    int
}

// msl returns the MSL name of an identifier. The trailing _ makes it differ from the keywords of C++ and MSL and from
// the names of helpers.
func msl(name string) string { return name + "_" }

// translate translates a module. It panics with a *wgsl.Error if the module is invalid or not supported.
func translate(m *wgsl.Module) *Kernel {
	t := &translator{functions: map[string]*wgsl.Function{}, scopes: wgsl.Scopes[value]{{}}, helpers: map[string]bool{}}
	t.types = wgsl.Resolver{
		Structs: map[string]*wgsl.Type{},
		Constant: func(e wgsl.Expr) (constant.Value, error) {
			return t.expr(e).constant, nil // or a panic, which Resolve turns into an error
		},
	}
	k := &Kernel{Entry: "rlx_main"}
	entry := wgsl.Must(m.Check())
	k.Threads = entry.Threads
	for _, v := range m.Globals { // constants first, because types may use them as sizes of arrays
		if v.Keyword == "const" {
			t.scopes[0][v.Name] = t.constValue(v)
		}
	}
	for _, s := range m.Structs {
		for _, f := range wgsl.Must(t.types.Declare(s)).Fields {
			t.declared(f.Type)
		}
	}
	var g globals
	for _, v := range m.Globals {
		if v.Keyword == "var" {
			g.declare(t, v)
		}
	}
	for _, f := range m.Functions {
		t.functions[f.Name] = f
	}
	texts := map[string]string{}
	t.indent = 1
	for _, f := range m.Functions {
		t.function(f)
		texts[f.Name] = t.out.String()
		t.out.Reset()
	}
	if k.Matrices = t.matrices.Line > 0; k.Matrices && entry.Threads%32 != 0 {
		wgsl.Fail(t.matrices, "matrices in a workgroup of %d invocations; want a multiple of 32", entry.Threads)
	}
	reached := m.Reached(entry)
	for _, f := range m.Functions {
		if reached[f.Name] {
			t.out.WriteString(texts[f.Name])
		}
	}
	k.Buffers, k.Shared, k.Barrier = len(g.buffers), g.bytes(), t.barrier || g.shared != nil
	k.Text = t.text(m, &g, entry)
	return k
}

// need adds a helper of helperTexts to the text.
func (t *translator) need(helper string) { t.helpers[helper] = true }

// constValue returns the value of a const. Its text replaces each use of the const.
func (t *translator) constValue(v *wgsl.Variable) value {
	x := t.expr(v.Init)
	if v.Type != nil {
		x = as(v.Init.At(), x, t.plain(v.Type))
	}
	x.loose, x.ref = x.loose || x.constant == nil, false
	return x
}

// globals collects the MSL text of the global variables of a module. They become members of struct rlx_kernel, and the
// functions become its methods.
type globals struct {
	buffers []string     // statements of the kernel function that set the members for buffers
	params  []string     // parameters of the kernel function: the buffers
	members []string     // members of struct rlx_kernel
	shared  []string     // members of struct rlx_shared, the threadgroup memory
	layout  []*wgsl.Type // types of the members in shared
}

func (g *globals) declare(t *translator, v *wgsl.Variable) {
	typ := t.resolve(v.Type)
	x := value{text: msl(v.Name), typ: typ, ref: true}
	switch v.Space {
	case "storage":
		data, member, init := typ, "", ""
		x.ref = !v.ReadOnly
		switch {
		case typ.Kind == wgsl.Array && typ.N == 0:
			data = typ.Elem
			bytes, _ := size(data)
			t.need("rlx_buffer")
			member, init = "rlx_buffer<"+typeName(data)+">",
				fmt.Sprintf("{%s, sizes[%d] / %d}", msl(v.Name), v.Binding, bytes)
			g.params = append(
				g.params, fmt.Sprintf("device %s* %s [[buffer(%d)]]", typeName(data), msl(v.Name), v.Binding))
		case v.ReadOnly: // parameters, which are small enough for the constant address space
			x.text = "(*" + x.text + ")"
			member, init = "constant "+typeName(data)+"*", msl(v.Name)
			g.params = append(g.params, fmt.Sprintf("%s %s [[buffer(%d)]]", member, msl(v.Name), v.Binding))
		default:
			wgsl.Fail(v.Pos, "%s in a buffer that is written; want an array without a size", typ)
		}
		if !fitsBuffer(data) {
			wgsl.Fail(v.Pos, "%s in a buffer; its layout differs between WGSL and MSL", typ)
		}
		g.buffers = append(g.buffers, "k."+msl(v.Name)+" = "+init+";")
		g.members = append(g.members, member+" "+msl(v.Name)+";")
	case "workgroup":
		if !wordsOnly(typ) {
			wgsl.Fail(v.Pos, "%s in workgroup memory", typ)
		}
		x.text = "shared->" + x.text
		g.layout = append(g.layout, typ)
		g.shared = append(g.shared, typeName(typ)+" "+msl(v.Name)+";")
	case "private":
		init := "{}"
		if v.Init != nil {
			init = t.typed(v.Init, typ).text
		}
		g.members = append(g.members, typeName(t.plain(v.Type))+" "+msl(v.Name)+" = "+init+";")
	}
	t.scopes[0][v.Name] = x
}

// bytes returns the size of the threadgroup memory.
func (g *globals) bytes() int {
	n, _ := layout(g.layout)
	return n
}

// helperTexts holds the MSL helpers that a kernel may need, in the order in which text writes them.
var helperTexts = []struct{ name, text string }{
	{"rlx_buffer", "template <typename T> struct rlx_buffer {\n  device T* data;\n  uint n;\n};\n"},
	{"rlx_get",
		"template <typename T> T rlx_get(rlx_buffer<T> x, uint i) {\n  return x.data[metal::min(i, x.n - 1u)];\n}\n"},
	{"rlx_put",
		"template <typename T> void rlx_put(rlx_buffer<T> x, uint i, T v) {\n  if (i < x.n) {\n    x.data[i] = v;\n  }\n}\n"},
	{"rlx_add", "uint rlx_add(rlx_buffer<metal::atomic_uint> x, uint i, uint v) {\n  return i < x.n ? metal::atomic_fetch_add_explicit(x.data + i, v, metal::memory_order_relaxed) : 0u;\n}\n"},
	{"rlx_array", "template <typename T, uint N> struct rlx_array {\n  T at[N];\n};\n"},
	{"rlx_select", "template <typename T> T rlx_select(T no, T yes, bool c) {\n  return c ? yes : no;\n}\n"},
	// WGSL defines x / 0 as x and x % 0 as 0, which are the results for the divisor 1. T is uint or a vector of it.
	{"rlx_div", "template <typename T> T rlx_div(T a, T b) {\n  return a / metal::select(b, T(1u), b == T(0u));\n}\n" +
		"template <> int rlx_div(int a, int b) {\n  return a / (b == 0 || (b == -1 && as_type<uint>(a) == 0x80000000u) ? 1 : b);\n}\n"},
	{"rlx_mod", "template <typename T> T rlx_mod(T a, T b) {\n  return a % metal::select(b, T(1u), b == T(0u));\n}\n" +
		"template <> int rlx_mod(int a, int b) {\n  return a % (b == 0 || b == -1 ? 1 : b);\n}\n"},
	// The upper bounds are the largest floats below 2^31 and 2^32. WGSL does not define the result for NaN; here it is
	// 0.
	{"rlx_int",
		"int rlx_int(float x) {\n  return x == x ? int(metal::min(metal::max(x, -2147483648.0f), 2147483520.0f)) : 0;\n}\n"},
	{"rlx_uint",
		"uint rlx_uint(float x) {\n  return x == x ? uint(metal::min(metal::max(x, 0.0f), 4294967040.0f)) : 0u;\n}\n"},
}

// text returns the whole MSL program. t.out holds the text of the functions.
func (t *translator) text(m *wgsl.Module, g *globals, entry *wgsl.Function) string {
	var b strings.Builder
	b.WriteString("#include <metal_stdlib>\n")
	for _, h := range helperTexts {
		if t.helpers[h.name] {
			b.WriteString(h.text)
		}
	}
	list := func(name string, members []string) {
		fmt.Fprintf(&b, "struct %s {\n", name)
		for _, f := range members {
			b.WriteString("  " + f + "\n")
		}
	}
	for _, s := range m.Structs {
		var members []string
		for _, f := range t.types.Structs[s.Name].Fields {
			members = append(members, typeName(f.Type)+" "+msl(f.Name)+";")
		}
		list(msl(s.Name), members)
		b.WriteString("};\n")
	}
	args := map[string]string{"workgroup_id": "group", "num_workgroups": "groups", "local_invocation_index": "local"}
	var passed []string
	for _, p := range entry.Params {
		a := args[p.Builtin]
		if a == "" {
			wgsl.Fail(p.Pos, "built-in value %q is not supported", p.Builtin)
		}
		passed = append(passed, a)
	}
	members := slices.Clone(g.members)
	if g.shared != nil {
		list("rlx_shared", g.shared)
		b.WriteString("};\n")
		members = append(members, "threadgroup rlx_shared* shared;")
	}
	list("rlx_kernel", members)
	b.WriteString(t.out.String())
	b.WriteString("};\nkernel void rlx_main(")
	for _, p := range g.params {
		b.WriteString(p + ", ")
	}
	fmt.Fprintf(&b, "constant uint* sizes [[buffer(%d)]], ", len(g.buffers))
	if g.shared != nil {
		b.WriteString("threadgroup rlx_shared* shared [[threadgroup(0)]], ")
	}
	b.WriteString(
		"metal::uint3 group [[threadgroup_position_in_grid]], metal::uint3 groups [[threadgroups_per_grid]], uint local [[thread_index_in_threadgroup]]) {\n  rlx_kernel k;\n")
	for _, set := range g.buffers {
		b.WriteString("  " + set + "\n")
	}
	if g.shared != nil {
		fmt.Fprintf(&b, `  for (uint i = local; i < %d; i += %d) {
    ((threadgroup uint*)shared)[i] = 0u;
  }
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  k.shared = shared;
`, g.bytes()/4, entry.Threads)
	}
	fmt.Fprintf(&b, "  k.%s(%s);\n}\n", msl(entry.Name), strings.Join(passed, ", "))
	return b.String()
}
