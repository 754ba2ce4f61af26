package ptx

import (
	"fmt"
	"go/constant"
	"math/bits"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// translator is the state of one translation.
type translator struct {
	types     wgsl.Resolver
	functions map[string]*wgsl.Function
	effects   map[string]bool // functions with loops, assignments to global variables or calls of such functions
	scopes    wgsl.Scopes[value]
	calls     []*call         // from the entry point to the function that is translated
	jumps     []jumps         // targets of break and continue, from the outermost
	mutable   map[string]bool // registers of variables
	registers map[string]int  // number of registers of each class
	labels    int
	inlined   int                  // number of calls so far
	begin     wgsl.Pos             // of the entry point
	shared    string               // register with the address of shared memory
	ended     bool                 // the next instruction cannot be reached
	head, out []string             // instructions, those of head first
	start     int                  // number of instructions in out before the current statement
	made      map[string]int       // instructions that compute a register, by the register
	keys      map[string]string    // keys in done, by register
	done      []map[string]operand // results of instructions before the next one, by nested block
}

// call is a function while it is translated in place.
type call struct {
	result *wgsl.Type // nil if the function has no result
	ops    []operand  // registers of the result, if the function has several returns
	end    string     // label after the function; empty if no return has used it
}

// jumps are the labels that break and continue jump to. next is empty for a switch.
type jumps struct{ end, next string }

// mostStatic is the number of bytes of shared memory that a text may declare.
const mostStatic = 48 << 10

// translate translates a module. It panics with a *wgsl.Error if the module is invalid or not supported.
func translate(m *wgsl.Module) *Kernel {
	t := &translator{functions: map[string]*wgsl.Function{}, scopes: wgsl.Scopes[value]{{}},
		mutable: map[string]bool{}, registers: map[string]int{},
		made: map[string]int{}, keys: map[string]string{}, done: []map[string]operand{{}}}
	t.types = wgsl.Resolver{
		Structs: map[string]*wgsl.Type{},
		Constant: func(e wgsl.Expr) (constant.Value, error) {
			c, _ := t.expr(e).constant() // or a panic, which Resolve turns into an error
			return c.Value, nil
		},
	}
	entry := wgsl.Must(m.Check())
	for _, v := range m.Globals { // constants first, because types may use them as sizes of arrays
		if v.Keyword == "const" {
			t.scopes[0][v.Name] = t.constant(v)
		}
	}
	for _, s := range m.Structs {
		wgsl.Must(t.types.Declare(s))
	}
	for _, f := range m.Functions {
		t.functions[f.Name] = f
	}
	t.begin = entry.Pos
	t.effects = effects(m)
	k := &Kernel{Entry: "rlx_main", Threads: entry.Threads}
	var params []string
	bytes := 0
	for i, v := range m.Globals {
		if v.Keyword != "var" {
			continue
		}
		switch v.Space {
		case "storage":
			params = append(params, v.Name, v.Name+"_bytes")
			t.scopes[0][v.Name] = t.binding(v, lastBinding(m.Globals[i+1:]))
			k.Buffers++
		case "workgroup":
			bytes = t.workgroup(v, bytes)
		case "private":
			t.private(v)
		}
	}
	t.head, t.out = t.out, nil
	if bytes = roundUp(bytes, 4); bytes > 0 {
		t.zeroShared(bytes, entry.Threads)
	}
	t.entry(entry)
	k.Shared = roundUp(bytes, 16)
	if k.Shared > mostStatic {
		k.Shared, k.Dynamic = 0, k.Shared
	}
	k.Text = t.text(k, params)
	return k
}

func lastBinding(rest []*wgsl.Variable) bool {
	for _, v := range rest {
		if v.Space == "storage" {
			return false
		}
	}
	return true
}

// plain returns the type that a type expression names. Its values are in registers.
func (t *translator) plain(e *wgsl.TypeExpr) *wgsl.Type {
	typ := wgsl.Must(t.types.Constructible(e))
	inRegisters(e.Pos, typ)
	return typ
}

// mostScalars is the largest number of scalars of a value in registers.
const mostScalars = 1024

// inRegisters fails if values of a type have too many scalars for registers.
func inRegisters(p wgsl.Pos, typ *wgsl.Type) {
	if n := count(typ); n > mostScalars {
		wgsl.Fail(p, "%s in registers: %d scalars; want at most %d", typ, n, mostScalars)
	}
}

// hasBool reports whether a type has a part that no memory can hold.
func hasBool(typ *wgsl.Type) bool {
	if typ.Elem != nil {
		return hasBool(typ.Elem)
	}
	return typ == wgsl.Bool || slices.ContainsFunc(typ.Fields, func(f wgsl.TypedField) bool { return hasBool(f.Type) })
}

// constant returns the value of a const.
func (t *translator) constant(v *wgsl.Variable) value {
	x := t.load(t.expr(v.Init))
	if v.Type != nil {
		x = as(v.Init.At(), x, t.plain(v.Type))
	}
	for _, o := range x.ops {
		if !o.constant() {
			wgsl.Fail(v.Init.At(), "the value of const %s is not known", v.Name)
		}
	}
	return x
}

// binding declares a storage variable, and reads its address and length.
func (t *translator) binding(v *wgsl.Variable, last bool) value {
	typ := wgsl.Must(t.types.Resolve(v.Type))
	b := &buffer{name: v.Name, base: t.fresh("d"), readOnly: last && v.ReadOnly, words: map[int]operand{}}
	address := t.fresh("d")
	t.line("ld.param.u64 %s, [%s]", address, v.Name)
	t.line("cvta.to.global.u64 %s, %s", b.base, address)
	if typ.Kind != wgsl.Array || typ.N > 0 {
		if !v.ReadOnly {
			wgsl.Fail(v.Pos, "%s in a buffer that is written; want an array without a size", typ)
		}
		return value{typ: typ, memory: &memory{space: "global", base: b.base, buffer: b}}
	}
	b.elem = typ.Elem
	if hasBool(typ) {
		wgsl.Fail(v.Pos, "%s in a buffer", typ)
	}
	bytes, elements, most := t.fresh("d"), t.fresh("d"), t.fresh("d")
	t.line("ld.param.u64 %s, [%s_bytes]", bytes, v.Name)
	if n := uint32(stride(typ.Elem)); bits.OnesCount32(n) == 1 {
		t.line("shr.u64 %s, %s, %d", elements, bytes, bits.TrailingZeros32(n))
	} else {
		t.line("div.u64 %s, %s, %d", elements, bytes, n)
	}
	t.line("sub.u64 %s, %s, 1", most, elements)
	b.last = t.fresh("r")
	t.line("cvt.u32.u64 %s, %s", b.last, most)
	return value{typ: typ, memory: &memory{space: "global", base: b.base, buffer: b}}
}

// workgroup declares a variable in shared memory, after the bytes that are in use. It returns the number of bytes in
// use after it.
func (t *translator) workgroup(v *wgsl.Variable, bytes int) int {
	typ := wgsl.Must(t.types.Resolve(v.Type))
	if typ.Kind == wgsl.Array && typ.N == 0 {
		wgsl.Fail(v.Pos, "%s in workgroup memory", typ)
	}
	if hasBool(typ) {
		wgsl.Fail(v.Pos, "%s in workgroup memory", typ)
	}
	size, align := typ.Size()
	bytes = roundUp(bytes, align)
	if t.shared == "" {
		t.shared = t.fresh("r")
		t.line("mov.u32 %s, shared", t.shared)
	}
	t.scopes[0][v.Name] = value{typ: typ, memory: &memory{space: "shared", base: t.shared, offset: bytes}}
	return bytes + size
}

// private declares a variable that each invocation has for itself.
func (t *translator) private(v *wgsl.Variable) {
	typ := t.plain(v.Type)
	from := zeros(typ)
	if v.Init != nil {
		from = t.typed(v.Init, typ).ops
	}
	t.comment("%s", v.Name)
	t.scopes[0][v.Name] = value{typ: typ, ops: t.variable(typ, from), variable: true}
}

// zeroShared clears shared memory, because WGSL's workgroup memory starts as zeros.
func (t *translator) zeroShared(bytes, threads int) {
	t.comment("workgroup memory starts as zeros")
	tid, at := t.fresh("r"), t.fresh("r")
	t.line("mov.u32 %s, %%tid.x", tid)
	done := 0
	for _, unit := range []int{16, 4} {
		kind := map[int]string{16: ".v4.u32", 4: ".u32"}[unit]
		zero := map[int]string{16: "{0, 0, 0, 0}", 4: "0"}[unit]
		units := (bytes - done) / unit
		if units == 0 {
			continue
		}
		t.line("mad.lo.u32 %s, %s, %d, %s", at, tid, unit, t.shared)
		if full := units / threads; full > 8 {
			end, head, p := t.fresh("r"), t.label("zero"), t.fresh("p")
			t.line("add.u32 %s, %s, %d", end, t.shared, done+full*threads*unit)
			t.place(head)
			t.line("st.shared%s [%s+%d], %s", kind, at, done, zero)
			t.line("add.u32 %s, %s, %d", at, at, threads*unit)
			t.line("setp.lt.u32 %s, %s, %s", p, at, end)
			t.line("@%s bra %s", p, head)
		} else {
			for i := range full {
				t.line("st.shared%s [%s+%d], %s", kind, at, done+i*threads*unit, zero)
			}
			if units%threads > 0 && full > 0 {
				t.line("add.u32 %s, %s, %d", at, at, full*threads*unit)
			}
		}
		if rest := units % threads; rest > 0 {
			p := t.fresh("p")
			t.line("setp.lt.u32 %s, %s, %d", p, tid, rest)
			t.line("@%s st.shared%s [%s+%d], %s", p, kind, at, done, zero)
		}
		done += units * unit
	}
	t.line("bar.sync 0")
}

// builtinValues holds the PTX registers of the built-in values of an entry point.
var builtinValues = map[string][]string{
	"workgroup_id":           {"%ctaid.x", "%ctaid.y", "%ctaid.z"},
	"num_workgroups":         {"%nctaid.x", "%nctaid.y", "%nctaid.z"},
	"local_invocation_index": {"%tid.x"},
}

// entry translates the entry point.
func (t *translator) entry(f *wgsl.Function) {
	scope := map[string]value{}
	for _, p := range f.Params {
		typ := t.plain(p.Type)
		from := builtinValues[p.Builtin]
		if from == nil || len(from) != count(typ) || typ.Scalar() != wgsl.U32 {
			wgsl.Fail(p.Pos, "built-in value %q is not supported", p.Builtin)
		}
		v := value{typ: typ}
		for _, name := range from {
			r := t.register(wgsl.U32)
			t.line("mov.u32 %s, %s", r.reg, name)
			if p.Builtin == "local_invocation_index" {
				r.most = uint32(f.Threads - 1)
			}
			v.ops = append(v.ops, r)
		}
		scope[p.Name] = v
	}
	t.scopes = append(t.scopes[:1], scope)
	c := &call{}
	t.calls = append(t.calls, c)
	t.list(f.Body.List)
	if c.end != "" {
		t.place(c.end)
	}
	t.line("ret")
}

// text returns the whole PTX. t.out holds the instructions.
func (t *translator) text(k *Kernel, params []string) string {
	var b strings.Builder
	b.WriteString(".version 7.0\n.target sm_70\n.address_size 64\n\n")
	if k.Dynamic > 0 {
		b.WriteString(".extern .shared .align 16 .b8 shared[];\n\n")
	}
	fmt.Fprintf(&b, ".visible .entry %s(\n", k.Entry)
	for i, p := range params {
		comma := ","
		if i == len(params)-1 {
			comma = ""
		}
		fmt.Fprintf(&b, "\t.param .u64 %s%s\n", p, comma)
	}
	fmt.Fprintf(&b, ")\n.reqntid %d, 1, 1\n{\n", k.Threads)
	for _, c := range classes {
		if n := t.registers[c.letter]; n > 0 {
			fmt.Fprintf(&b, "\t.reg %s %%%s<%d>;\n", c.typ, c.letter, n)
		}
	}
	if k.Shared > 0 {
		fmt.Fprintf(&b, "\t.shared .align 16 .b8 shared[%d];\n", k.Shared)
	}
	b.WriteString("\n" + strings.Join(t.head, "") + strings.Join(t.out, "") + "}\n")
	return b.String()
}
