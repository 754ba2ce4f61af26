package ptx

import (
	"fmt"
	"go/constant"
	"math"

	"github.com/rlx-go/rlx/plugins/internal/wgsl"
)

// operand is a scalar: a register or a constant.
type operand struct {
	reg  string // empty for a constant
	bits uint32 // of a constant; 0 or 1 for a bool
	most uint32 // upper bound of an integer, read as u32
	// The operand is the sum of register of and constant plus, modulo 2^32, if of is not empty.
	of   string
	plus uint32
}

func (o operand) constant() bool { return o.reg == "" }

// is reports whether the operand is the constant with the given bits.
func (o operand) is(bits uint32) bool { return o.reg == "" && o.bits == bits }

// number returns a constant operand.
func number(bits uint32) operand { return operand{bits: bits, most: bits} }

func float(f float32) operand { return number(math.Float32bits(f)) }

func truth(b bool) operand {
	if b {
		return number(1)
	}
	return number(0)
}

// text returns the operand in PTX, as a value of a scalar type other than bool.
func (o operand) text(t *wgsl.Type) string {
	switch {
	case o.reg != "":
		return o.reg
	case t == wgsl.F32:
		return fmt.Sprintf("0f%08X", o.bits)
	case t == wgsl.I32:
		return fmt.Sprint(int32(o.bits))
	}
	return fmt.Sprint(o.bits)
}

// value is the result of an expression. Its scalars are ops, in the order of their places in memory, unless it has an
// abstract type or is in memory.
type value struct {
	typ      *wgsl.Type
	ops      []operand
	variable bool           // ops are the registers of a variable
	abstract constant.Value // of an abstract type
	memory   *memory        // the place of a value that is not loaded
}

// memory is a place in a buffer or in shared memory.
type memory struct {
	space  string // global or shared
	base   string // register with an address
	offset int    // in bytes from the address
	// If buffer is set, the address is that of element index of the buffer instead.
	buffer *buffer
	index  operand
}

// buffer is a binding.
type buffer struct {
	name     string
	base     string     // register with the address
	last     string     // register with the index of the last element of an array without a size
	elem     *wgsl.Type // of an array without a size; otherwise nil
	readOnly bool
	words    map[int]operand // scalars of the parameters that are loaded, by offset
}

// scalars returns the types of the scalars of a type, in order.
func scalars(t *wgsl.Type) (out []*wgsl.Type) {
	switch t.Kind {
	case wgsl.Scalar:
		return []*wgsl.Type{t}
	case wgsl.Atomic:
		return []*wgsl.Type{t.Elem}
	case wgsl.Vector, wgsl.Matrix, wgsl.Array:
		one := scalars(t.Elem)
		for range t.N {
			out = append(out, one...)
		}
	case wgsl.Structure:
		for _, f := range t.Fields {
			out = append(out, scalars(f.Type)...)
		}
	}
	return out
}

// count returns the number of scalars of a type.
func count(t *wgsl.Type) int {
	switch t.Kind {
	case wgsl.Vector, wgsl.Matrix, wgsl.Array:
		return t.N * count(t.Elem)
	case wgsl.Structure:
		n := 0
		for _, f := range t.Fields {
			n += count(f.Type)
		}
		return n
	}
	return 1
}

// stride returns the distance of elements of a type in an array, in bytes.
func stride(t *wgsl.Type) int {
	bytes, align := t.Size()
	return roundUp(bytes, align)
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// field returns the type of a member of a struct, its offset in bytes, and the number of scalars before it.
func field(t *wgsl.Type, name string) (typ *wgsl.Type, offset, before int) {
	for _, f := range t.Fields {
		bytes, align := f.Type.Size()
		offset = roundUp(offset, align)
		if f.Name == name {
			return f.Type, offset, before
		}
		offset += bytes
		before += count(f.Type)
	}
	panic("BUG: ptx: no member " + name)
}

// literal returns the value of a constant.
func literal(c wgsl.Constant) value {
	v := value{typ: c.Type}
	switch c.Type {
	case wgsl.AbstractInt, wgsl.AbstractFloat:
		v.abstract = c.Value
	case wgsl.Bool:
		v.ops = []operand{truth(constant.BoolVal(c.Value))}
	case wgsl.F32:
		f, _ := constant.Float32Val(constant.ToFloat(c.Value))
		v.ops = []operand{float(f)}
	default:
		n, _ := c.Whole()
		v.ops = []operand{number(uint32(n))}
	}
	return v
}

// constant returns the value as a constant for package wgsl. ok is false if the value is not constant.
func (v value) constant() (c wgsl.Constant, ok bool) {
	switch {
	case v.abstract != nil:
		return wgsl.Constant{Type: v.typ, Value: v.abstract}, true
	case v.memory != nil || v.typ.Kind != wgsl.Scalar || !v.ops[0].constant():
		return wgsl.Constant{}, false
	}
	switch bits := v.ops[0].bits; v.typ {
	case wgsl.Bool:
		return wgsl.Constant{Type: v.typ, Value: constant.MakeBool(bits != 0)}, true
	case wgsl.F32:
		f := float64(math.Float32frombits(bits))
		if f-f != 0 {
			return wgsl.Constant{}, false
		}
		return wgsl.Constant{Type: v.typ, Value: constant.MakeFloat64(f)}, true
	case wgsl.I32:
		return wgsl.Constant{Type: v.typ, Value: constant.MakeInt64(int64(int32(bits)))}, true
	default:
		return wgsl.Constant{Type: v.typ, Value: constant.MakeInt64(int64(bits))}, true
	}
}

// as returns v as a value of type to. It converts an abstract value if that is possible, and fails if v has another
// type.
func as(p wgsl.Pos, v value, to *wgsl.Type) value {
	switch {
	case !v.typ.Becomes(to):
		wgsl.Fail(p, "a value of %s; want %s", v.typ, to)
	case v.typ.Abstract():
		return literal(wgsl.Must(wgsl.ConstantOf(p, v.abstract, to)))
	}
	return v
}

// concrete converts an abstract value to its default type, i32 or f32, and returns other values unchanged.
func concrete(p wgsl.Pos, v value) value { return as(p, v, v.typ.Concrete()) }
