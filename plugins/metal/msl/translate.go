package msl

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// translator is the state of one translation.
type translator struct {
	structs   map[string]*typ
	functions map[string]*function
	scopes    []map[string]value // from the global scope to the innermost
	used      map[string]bool    // MSL names of the current function's variables
	result    *typ               // of the current function; nil for none
	calls     map[string]bool    // functions that the current function calls
	helpers   map[string]bool    // names in helperTexts that the text needs
	barrier   bool               // the text has a barrier
	matrices  pos                // of a call of a matrix function; zero if there is none
	out       strings.Builder
	indent    int
}

// msl returns the MSL name of an identifier. The trailing _ makes it differ from the keywords of C++ and MSL and from the names of helpers.
func msl(name string) string { return name + "_" }

// translate translates a module. It panics with an *Error if the module is invalid or not supported.
func translate(m *module) *Kernel {
	t := &translator{structs: map[string]*typ{}, functions: map[string]*function{}, scopes: []map[string]value{{}}, helpers: map[string]bool{}}
	k := &Kernel{Entry: "rlx_main"}
	declared := map[string]bool{}
	once := func(p pos, name string) {
		if declared[name] {
			fail(p, "%s is declared twice", name)
		}
		declared[name] = true
	}
	for _, v := range m.globals { // constants first, because types may use them as sizes of arrays
		if once(v.pos, v.name); v.keyword == "const" {
			t.scopes[0][v.name] = t.constValue(v)
		}
	}
	for _, s := range m.structs {
		once(s.pos, s.name)
		t.declareStruct(s)
	}
	var g globals
	for _, v := range m.globals {
		if v.keyword == "var" {
			g.declare(t, v)
		}
	}
	for _, f := range m.functions {
		once(f.pos, f.name)
		t.functions[f.name] = f
	}
	var entry *function
	called, texts := map[string][]string{}, map[string]string{}
	t.indent = 1
	for _, f := range m.functions {
		if f.entry {
			if entry != nil {
				fail(f.pos, "a second entry point; the first is %s", entry.name)
			}
			entry, k.Threads = f, f.threads
		}
		t.function(f)
		texts[f.name] = t.out.String()
		t.out.Reset()
		called[f.name] = slices.Sorted(maps.Keys(t.calls)) // sorted, so that reach always reports the same error
	}
	if entry == nil {
		fail(pos{1, 1}, "there is no entry point")
	}
	if entry.threads < 1 || entry.threads > 1024 {
		fail(entry.pos, "%d invocations of a workgroup; want 1 to 1024", entry.threads)
	}
	if k.Matrices = t.matrices.line > 0; k.Matrices && entry.threads%32 != 0 {
		fail(t.matrices, "matrices in a workgroup of %d invocations; want a multiple of 32", entry.threads)
	}
	reached := t.reach(m, entry, called)
	for _, f := range m.functions {
		if reached[f.name] {
			t.out.WriteString(texts[f.name])
		}
	}
	k.Buffers, k.Shared, k.Barrier = len(g.buffers), g.bytes(), t.barrier || g.shared != nil
	k.Text = t.text(m, &g, entry)
	return k
}

// reach returns the entry point and the functions that it calls, directly or indirectly. calls has the callees of each function. Recursion is an error.
func (t *translator) reach(m *module, entry *function, calls map[string][]string) map[string]bool {
	done, open := map[string]bool{}, map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		if open[name] {
			fail(t.functions[name].pos, "%s calls itself", name)
		}
		if done[name] {
			return
		}
		open[name] = true
		for _, to := range calls[name] {
			visit(to)
		}
		open[name], done[name] = false, true
	}
	visit(entry.name)
	reached := maps.Clone(done)
	for _, f := range m.functions {
		visit(f.name)
	}
	return reached
}

// need adds a helper of helperTexts to the text.
func (t *translator) need(helper string) { t.helpers[helper] = true }

func (t *translator) declareStruct(s *structDecl) {
	typ := &typ{name: s.name, msl: msl(s.name), kind: structure}
	for _, f := range s.fields {
		typ.fields = append(typ.fields, typedField{f.name, t.plain(f.typ)})
	}
	if len(s.fields) == 0 {
		fail(s.pos, "struct %s has no members", s.name)
	}
	t.structs[s.name] = typ
}

// plain resolves a type expression, and fails if values of the type cannot be copied.
func (t *translator) plain(e *typeExpr) *typ {
	typ := t.resolve(e)
	if !typ.plain() {
		fail(e.pos, "%s; want a type whose values can be copied", typ)
	}
	return typ
}

// plain reports whether values of the type can be copied.
func (t *typ) plain() bool {
	return t.kind != atomic && t.kind != shared8x8 && (t.kind != array || t.n > 0 && t.elem.plain())
}

// constValue returns the value of a const. Its text replaces each use of the const.
func (t *translator) constValue(v *variable) value {
	x := t.expr(v.init)
	if v.typ != nil {
		x = as(v.init.at(), x, t.plain(v.typ))
	}
	x.loose, x.ref = x.loose || x.c == nil, false
	return x
}

// globals collects the MSL text of the global variables of a module. They become members of struct rlx_kernel, and the functions become its methods.
type globals struct {
	buffers []string // statements of the kernel function that set the members for buffers
	params  []string // parameters of the kernel function: the buffers
	members []string // members of struct rlx_kernel
	shared  []string // members of struct rlx_shared, the threadgroup memory
	layout  []*typ   // types of the members in shared
}

func (g *globals) declare(t *translator, v *variable) {
	if v.typ == nil {
		fail(v.pos, "%s has no type", v.name)
	}
	typ := t.resolve(v.typ)
	x := value{text: msl(v.name), typ: typ, ref: true}
	if v.init != nil && v.space != "private" {
		fail(v.pos, "an initial value of a variable in address space %s", v.space)
	}
	switch v.space {
	case "storage":
		if v.binding != len(g.buffers) {
			fail(v.pos, "%s has binding %d; want %d, the next one", v.name, v.binding, len(g.buffers))
		}
		data, member, init := typ, "", ""
		x.ref = !v.read
		switch {
		case typ.kind == array && typ.n == 0:
			data = typ.elem
			bytes, _ := data.size()
			t.need("rlx_buffer")
			member, init = "rlx_buffer<"+data.msl+">", fmt.Sprintf("{%s, sizes[%d] / %d}", msl(v.name), v.binding, bytes)
			g.params = append(g.params, fmt.Sprintf("device %s* %s [[buffer(%d)]]", data.msl, msl(v.name), v.binding))
		case v.read: // parameters, which are small enough for the constant address space
			x.text = "(*" + x.text + ")"
			member, init = "constant "+data.msl+"*", msl(v.name)
			g.params = append(g.params, fmt.Sprintf("%s %s [[buffer(%d)]]", member, msl(v.name), v.binding))
		default:
			fail(v.pos, "%s in a buffer that is written; want an array without a size", typ)
		}
		if !data.fitsBuffer() {
			fail(v.pos, "%s in a buffer; its layout differs between WGSL and MSL", typ)
		}
		g.buffers = append(g.buffers, "k."+msl(v.name)+" = "+init+";")
		g.members = append(g.members, member+" "+msl(v.name)+";")
	case "workgroup":
		if !typ.wordsOnly() {
			fail(v.pos, "%s in workgroup memory", typ)
		}
		x.text = "shared->" + x.text
		g.layout = append(g.layout, typ)
		g.shared = append(g.shared, typ.msl+" "+msl(v.name)+";")
	case "private":
		init := "{}"
		if v.init != nil {
			init = t.typed(v.init, typ).text
		}
		g.members = append(g.members, t.plain(v.typ).msl+" "+msl(v.name)+" = "+init+";")
	default:
		fail(v.pos, "address space %q is not supported", v.space)
	}
	t.scopes[0][v.name] = x
}

// bytes returns the size of the threadgroup memory.
func (g *globals) bytes() int {
	n, _ := layout(g.layout)
	return n
}

// wordsOnly reports whether the type has a fixed size and consists of 32-bit words.
func (t *typ) wordsOnly() bool {
	switch t.kind {
	case scalar, vector:
		return t.scalar() != boolean
	case array:
		return t.n > 0 && t.elem.wordsOnly()
	case structure:
		for _, f := range t.fields {
			if !f.typ.wordsOnly() {
				return false
			}
		}
	}
	return true
}

// helperTexts holds the MSL helpers that a kernel may need, in the order in which text writes them.
var helperTexts = []struct{ name, text string }{
	{"rlx_buffer", "template <typename T> struct rlx_buffer {\n  device T* data;\n  uint n;\n};\n"},
	{"rlx_get", "template <typename T> T rlx_get(rlx_buffer<T> x, uint i) {\n  return x.data[metal::min(i, x.n - 1u)];\n}\n"},
	{"rlx_put", "template <typename T> void rlx_put(rlx_buffer<T> x, uint i, T v) {\n  if (i < x.n) {\n    x.data[i] = v;\n  }\n}\n"},
	{"rlx_array", "template <typename T, uint N> struct rlx_array {\n  T at[N];\n};\n"},
	{"rlx_select", "template <typename T> T rlx_select(T no, T yes, bool c) {\n  return c ? yes : no;\n}\n"},
	// WGSL defines x / 0 as x and x % 0 as 0, which are the results for the divisor 1. T is uint or a vector of it.
	{"rlx_div", "template <typename T> T rlx_div(T a, T b) {\n  return a / metal::select(b, T(1u), b == T(0u));\n}\n" +
		"template <> int rlx_div(int a, int b) {\n  return a / (b == 0 || (b == -1 && as_type<uint>(a) == 0x80000000u) ? 1 : b);\n}\n"},
	{"rlx_mod", "template <typename T> T rlx_mod(T a, T b) {\n  return a % metal::select(b, T(1u), b == T(0u));\n}\n" +
		"template <> int rlx_mod(int a, int b) {\n  return a % (b == 0 || b == -1 ? 1 : b);\n}\n"},
	// The upper bounds are the largest floats below 2^31 and 2^32. WGSL does not define the result for NaN; here it is 0.
	{"rlx_int", "int rlx_int(float x) {\n  return x == x ? int(metal::min(metal::max(x, -2147483648.0f), 2147483520.0f)) : 0;\n}\n"},
	{"rlx_uint", "uint rlx_uint(float x) {\n  return x == x ? uint(metal::min(metal::max(x, 0.0f), 4294967040.0f)) : 0u;\n}\n"},
}

// text returns the whole MSL program. t.out holds the text of the functions.
func (t *translator) text(m *module, g *globals, entry *function) string {
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
	for _, s := range m.structs {
		var members []string
		for _, f := range t.structs[s.name].fields {
			members = append(members, f.typ.msl+" "+msl(f.name)+";")
		}
		list(msl(s.name), members)
		b.WriteString("};\n")
	}
	args := map[string]string{"workgroup_id": "group", "num_workgroups": "groups", "local_invocation_index": "local"}
	var passed []string
	for _, p := range entry.params {
		a := args[p.builtin]
		if a == "" {
			fail(p.pos, "built-in value %q is not supported", p.builtin)
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
	b.WriteString("metal::uint3 group [[threadgroup_position_in_grid]], metal::uint3 groups [[threadgroups_per_grid]], uint local [[thread_index_in_threadgroup]]) {\n  rlx_kernel k;\n")
	for _, set := range g.buffers {
		b.WriteString("  " + set + "\n")
	}
	if g.shared != nil {
		fmt.Fprintf(&b, `  for (uint i = local; i < %d; i += %d) {
    ((threadgroup uint*)shared)[i] = 0u;
  }
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  k.shared = shared;
`, g.bytes()/4, entry.threads)
	}
	fmt.Fprintf(&b, "  k.%s(%s);\n}\n", msl(entry.name), strings.Join(passed, ", "))
	return b.String()
}
