package kernels

import (
	_ "embed"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
)

// The node of a loop has no shaders: package plugins/internal/gpu runs the loop's programs, and between them the
// shaders below. They copy values of all types.
var _ = register(Kernel{Op: "loop", Takes: "(" + computed + "|i8|i64|u8...)",
	Shaders: func(*ir.Node, Limits) []Shader { return nil }})

//go:embed loop.wgsl
var loopWGSL string

// The control of a loop is these words of device memory, which the loop's shaders update. A word with value 0 is the
// first of a status slot, too. So a loop in a loop reports its error like a step.
const (
	LoopError     = 0 // 1 + the number of the slot that reported the first error; 0 without an error
	LoopIteration = 1 // the iteration of the error
	LoopActive    = 2 // 1 until the loop has ended
	LoopTime      = 3 // number of the current iteration; of the first, 0, once LoopNext has run
	LoopRuns      = 4 // runs of the loop since the control was cleared
)

// loopShader returns a shader with bindings of words. Those in written are written.
func loopShader(name string, consts map[string]any, fields []string, written, read []string) Shader {
	s := Shader{Name: "loop_" + name, Body: part(loopWGSL, name), Consts: consts, Fields: fields}
	for _, b := range written {
		s.Bindings = append(s.Bindings, Binding{Name: b, Operand: Out, DType: dtype.U32})
	}
	for _, b := range read {
		s.Bindings = append(s.Bindings, Binding{Name: b, DType: dtype.U32})
	}
	return s
}

// one is Shader.Groups of a shader with a single workgroup.
func one(*Call) int { return 1 }

// LoopStart returns the shader at the beginning of a loop. Its bindings are the loop's control, the control of the
// outer loop if inner is set, and the guard if guarded is set. The guard is at byte guard of its binding.
func LoopStart(inner, guarded bool, guard int) Shader {
	var read []string
	if inner {
		read = append(read, "outer")
	}
	if guarded {
		read = append(read, "guard")
	}
	s := loopShader("start", map[string]any{"Inner": inner, "Guarded": guarded}, []string{"guard"}, []string{"c"}, read)
	s.Params, s.Groups = func(*Call) []uint32 { return []uint32{uint32(guard)} }, one
	return s
}

// LoopSlots are the status slots of a loop's programs: first those of the condition, then those of the body.
type LoopSlots struct{ First, Cond, Body int }

// LoopNext returns the shader between the condition and the body of an iteration or, if last is set, after the last
// iteration. It looks for errors, counts the iteration, and ends the loop if the condition is false. Its bindings are
// the control, the status slots if there are any, and the value of the condition if conditional is set.
func LoopNext(slots LoopSlots, conditional, last bool) Shader {
	checked := slots.Cond+slots.Body > 0
	var read []string
	written := []string{"c"}
	if checked {
		written = append(written, "slots")
	}
	if conditional {
		read = append(read, "cond")
	}
	s := loopShader("next", map[string]any{"Checked": checked, "Conditional": conditional},
		[]string{"first", "ofcond", "ofbody", "last"}, written, read)
	end := uint32(0)
	if last {
		end = 1
	}
	s.Params = func(*Call) []uint32 {
		return []uint32{uint32(slots.First), uint32(slots.Cond), uint32(slots.Body), end}
	}
	s.Groups = one
	s.Loops = func(*Call) int { return slots.Cond + slots.Body + 2 }
	return s
}

// MaxLoopCarried is the largest number of values that a shader of LoopCarry copies.
const MaxLoopCarried = 8

const loopGroup = 64

// LoopCarry returns the shader after an iteration, which copies results of the body to its inputs, unless the loop has
// ended. The copies are from[k] to to[k], multiples of 4 bytes, of bytes(c)[k] bytes. Its bindings are the control and
// the memory of both.
func LoopCarry(from, to []int64, bytes func(c *Call) []int) Shader {
	s := loopShader("carry", map[string]any{"Group": loopGroup, "Most": MaxLoopCarried},
		[]string{"count", "end:8", "src:8", "dst:8"}, []string{"io"}, []string{"c"})
	words := func(c *Call) (n int) {
		for _, b := range bytes(c) {
			n += ceilDiv(b, 4)
		}
		return n
	}
	s.Params = func(c *Call) []uint32 {
		if words(c) == 0 {
			return nil
		}
		p, end := make([]uint32, 1+3*MaxLoopCarried), 0
		p[0] = uint32(len(from))
		for k, b := range bytes(c) {
			end += ceilDiv(b, 4)
			p[1+k], p[1+MaxLoopCarried+k], p[1+2*MaxLoopCarried+k] = uint32(end), uint32(from[k]/4), uint32(to[k]/4)
		}
		return p
	}
	s.Groups = func(c *Call) int { return ceilDiv(words(c), loopGroup) }
	return s
}

// LoopCopy copies bytes at a place of one binding to a place of another.
type LoopCopy struct {
	From, To int64 // offset of the first byte in its binding
	// Active means that nothing is copied once the loop has ended.
	Active bool
	// Rows returns the number of bytes to copy, and by how much From and To grow with each iteration.
	Rows func(c *Call) (bytes, from, to int)
}

// Shader returns the shader that copies. Its bindings are the destination, the source and the control.
func (l LoopCopy) Shader() Shader {
	s := loopShader("copy", map[string]any{"Group": loopGroup},
		[]string{"src", "dst", "bytes", "src_step", "dst_step", "running"}, []string{"y"}, []string{"x", "c"})
	s.Params = func(c *Call) []uint32 {
		bytes, from, to := l.Rows(c)
		if bytes == 0 {
			return nil
		}
		active := uint32(0)
		if l.Active {
			active = 1
		}
		return []uint32{uint32(l.From), uint32(l.To), uint32(bytes), uint32(from), uint32(to), active}
	}
	// one word more, since a row may begin and end within words
	s.Groups = func(c *Call) int {
		bytes, _, _ := l.Rows(c)
		return ceilDiv(ceilDiv(bytes, 4)+1, loopGroup)
	}
	return s
}
