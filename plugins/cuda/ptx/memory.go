package ptx

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// element returns element i of an array or a vector in memory. Beyond the end it returns the last element, but a write
// to a buffer is dropped there.
func (t *translator) element(v value, i operand) value {
	m := *v.memory
	out := value{typ: v.typ.Elem, memory: &m}
	if v.typ.N == 0 {
		m.index = i
		return out
	}
	size := stride(v.typ.Elem)
	switch i = t.clamped(i, v.typ.N); {
	case i.constant():
		m.offset += int(i.bits) * size
	case i.of != "": // at most N, so the sum does not wrap
		m.offset += int(int32(i.plus)) * size
		m.base = t.address(&m, operand{reg: i.of}, size)
	default:
		m.base = t.address(&m, i, size)
	}
	return out
}

// address returns the register with the address of element i of an array that begins at m.
func (t *translator) address(m *memory, i operand, size int) string {
	class, op := "r", "mad.lo.u32"
	if m.space == "global" {
		class, op = "d", "mad.wide.u32"
	}
	return t.onceIn(class, op, fmt.Sprintf("%s, %d, %s", i.text(wgsl.U32), size, m.base), !t.mutable[i.reg]).reg
}

// clamped returns an index, or n - 1 if it is n or more.
func (t *translator) clamped(i operand, n int) operand { return t.least(i, number(uint32(n-1))) }

// load returns a value that is not in memory. A value in memory is read.
func (t *translator) load(v value) value {
	if v.memory == nil {
		return v
	}
	m := v.memory
	if m.buffer != nil && m.buffer.elem == nil && m.base == m.buffer.base {
		return value{typ: v.typ, ops: t.parameters(m.buffer, v.typ, m.offset)}
	}
	space, base := m.space, m.base
	if m.buffer != nil {
		if m.buffer.elem != nil {
			i := m.index
			if !i.is(0) {
				i = t.result("min.u32", wgsl.U32, i, operand{reg: m.buffer.last})
			}
			base = t.at(m, i)
		}
		if m.buffer.readOnly {
			space = "global.nc"
		}
	}
	out := value{typ: v.typ}
	t.transfers(v.typ, m.offset, func(typ *wgsl.Type, n, offset int) {
		ops := make([]operand, n)
		for i := range ops {
			ops[i] = t.register(typ)
		}
		for _, o := range ops {
			t.made[o.reg] = len(t.out)
		}
		t.line("ld.%s%s%s %s, [%s]", space, vector(n), suffix(typ), list(typ, ops), at(base, offset))
		out.ops = append(out.ops, ops...)
	})
	return out
}

// at returns the register with the address of element i of a buffer.
func (t *translator) at(m *memory, i operand) string {
	if i.is(0) {
		return m.buffer.base
	}
	return t.address(&memory{space: "global", base: m.buffer.base}, i, stride(m.buffer.elem))
}

func at(base string, offset int) string {
	if offset == 0 {
		return base
	}
	return fmt.Sprintf("%s+%d", base, offset)
}

// parameters returns scalars of a binding without a runtime-sized array. They are read once, at the beginning.
func (t *translator) parameters(b *buffer, typ *wgsl.Type, offset int) (out []operand) {
	t.transfers(typ, offset, func(typ *wgsl.Type, n, offset int) {
		for i := range n {
			o, ok := b.words[offset+4*i]
			if !ok {
				o = t.register(typ)
				b.words[offset+4*i] = o
				nc := ""
				if b.readOnly {
					nc = ".nc"
				}
				t.head = append(t.head, fmt.Sprintf("\tld.global%s%s %s, [%s];\n", nc, suffix(typ), o.reg,
					at(b.base, offset+4*i)))
			}
			out = append(out, o)
		}
	})
	return out
}

// store writes scalars to memory. In a buffer, an element beyond the end is not written.
func (t *translator) store(v value, ops []operand) {
	m := v.memory
	base, guard := m.base, ""
	if m.buffer != nil {
		base = t.at(m, m.index)
		if !m.index.is(0) {
			p := t.from("setp.le.u32", wgsl.Bool, wgsl.U32, m.index, operand{reg: m.buffer.last})
			guard = "@" + p.reg + " "
		}
	}
	t.transfers(v.typ, m.offset, func(typ *wgsl.Type, n, offset int) {
		t.line("%sst.%s%s%s [%s], %s", guard, m.space, vector(n), suffix(typ), at(base, offset), list(typ, ops[:n]))
		ops = ops[n:]
	})
}

// transfers calls f for the pieces of a type that one instruction can read or write: n scalars of a type at an offset.
func (t *translator) transfers(typ *wgsl.Type, offset int, f func(typ *wgsl.Type, n, offset int)) {
	switch typ.Kind {
	case wgsl.Vector:
		if typ.N == 3 {
			for i := range 3 {
				f(typ.Elem, 1, offset+4*i)
			}
			return
		}
		f(typ.Elem, typ.N, offset)
	case wgsl.Matrix, wgsl.Array:
		for i := range typ.N {
			t.transfers(typ.Elem, offset+i*stride(typ.Elem), f)
		}
	case wgsl.Structure:
		for _, m := range typ.Fields {
			_, at, _ := field(typ, m.Name)
			t.transfers(m.Type, offset+at, f)
		}
	case wgsl.Atomic:
		f(typ.Elem, 1, offset)
	default:
		f(typ, 1, offset)
	}
}

func vector(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(".v%d", n)
}

// list returns scalars as the operand of an instruction that reads or writes memory.
func list(typ *wgsl.Type, ops []operand) string {
	if len(ops) == 1 {
		return ops[0].text(typ)
	}
	texts := make([]string, len(ops))
	for i, o := range ops {
		texts[i] = o.text(typ)
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// atomic translates the first argument of an atomic function, which is &x for an atomic x.
func (t *translator) atomic(e *wgsl.Call) value {
	v := t.expr(wgsl.Must(e.Address(0, "an atomic")))
	if v.typ.Kind != wgsl.Atomic || v.memory == nil {
		wgsl.Fail(e.Pos, "%s of %s", e.Of.Name, v.typ)
	}
	return v
}

// scope returns the threads that see the effects of an atomic instruction in order, and the state space.
func (m *memory) scope() string {
	if m.space == "shared" {
		return "cta.shared"
	}
	return "gpu.global"
}

func loadAtomic(t *translator, e *wgsl.Call) value {
	v := t.atomic(e)
	m := v.memory
	base := m.base
	if m.buffer != nil {
		base = t.at(m, t.result("min.u32", wgsl.U32, m.index, operand{reg: m.buffer.last}))
	}
	out := t.register(v.typ.Elem)
	t.line("ld.relaxed.%s.u32 %s, [%s]", m.scope(), out.reg, at(base, m.offset))
	return value{typ: v.typ.Elem, ops: []operand{out}}
}

func storeAtomic(t *translator, e *wgsl.Call) value {
	v := t.atomic(e)
	m := v.memory
	base, guard := t.guarded(m)
	t.line("%sst.relaxed.%s.u32 [%s], %s", guard, m.scope(), at(base, m.offset),
		t.typed(e.Args[1], v.typ.Elem).ops[0].text(v.typ.Elem))
	return value{}
}

// guarded returns the register with the address of a place, and the guard of instructions that write it.
func (t *translator) guarded(m *memory) (base, guard string) {
	if m.buffer == nil || m.buffer.elem == nil {
		return m.base, ""
	}
	p := t.from("setp.le.u32", wgsl.Bool, wgsl.U32, m.index, operand{reg: m.buffer.last})
	return t.at(m, m.index), "@" + p.reg + " "
}

// addAtomic translates atomicAdd. Outside of a buffer it adds nothing, and its result is 0.
func addAtomic(t *translator, e *wgsl.Call) value {
	v := t.atomic(e)
	by := t.typed(e.Args[1], v.typ.Elem).ops[0]
	base, guard := t.guarded(v.memory)
	out := operand{reg: t.fresh("r"), most: math.MaxUint32}
	if guard != "" {
		t.line("mov.u32 %s, 0", out.reg)
	}
	t.line("%satom.relaxed.%s.add.u32 %s, [%s], %s", guard, v.memory.scope(), out.reg, at(base, v.memory.offset),
		by.text(v.typ.Elem))
	return value{typ: v.typ.Elem, ops: []operand{out}}
}
