// Package kernels holds the shaders of the wgpu backend: for each op, the WGSL that runs it and its parameters.
// One kernel is a .go and a .wgsl file side by side. Package backend runs the steps of a program and knows no op.
//
// It imports core only, never the WebGPU binding: shaders are text here, so that they can be written and checked without a
// C compiler and without a device.
package kernels

import (
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op" // the ops that kernels name
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
)

// Limits are what kernels must know of a device.
type Limits struct {
	WorkgroupStorage int // bytes of var<workgroup> memory

	// AttentionTile is the shape of tiled attention; nil to choose one by its sizes.
	AttentionTile *AttentionTile
	// Tile is the shape of tiled products; nil to choose one by their sizes.
	Tile *Tile
}

// Kernel runs one op.
type Kernel struct {
	Op string
	// Takes says which nodes the kernel runs: what follows the op's name in a rule of package target. A program with other
	// nodes is refused when it is loaded.
	Takes string
	Also  string // another rule, or empty
	// Refuses says which values the shaders report through Status; empty means an index out of range, or a divisor of 0.
	Refuses string
	// Shaders returns the shaders that run the node, in order. They depend only on what does not change between runs.
	Shaders func(n *ir.Node, l Limits) []Shader
	// Scratch is the device memory in bytes that the shaders share, at the symbols' upper bounds. Nil means none.
	Scratch func(n *ir.Node, l Limits) int64
}

// Operand positions beside the indices of a node's operands.
const (
	Out     = -1 // the result; the first of several
	Scratch = -2 // device memory that belongs to no value
	Status  = -3 // where a shader reports values that its op does not allow
)

// Result is the operand position of result k of an op with several.
func Result(k int) int {
	if k == 0 {
		return Out
	}
	return Status - k
}

// Shader is a specialised WGSL program and how to dispatch it.
type Shader struct {
	Name     string // of the template, for messages
	Body     string // template text; see shader.go
	Bindings []Binding
	Consts   any // what the template reads as .C
	// Fields are the members of the struct P: "name" is a u32, "name:f32" an f32, "name:8" an array of 8 u32.
	Fields []string
	// Params are the values of Fields, flattened. A nil result means that there is nothing to do for these sizes.
	Params func(c *Call) []uint32
	// Groups is the number of workgroups. The runtime divides it into the dimensions that a device allows.
	Groups func(c *Call) int
	// Loops is an upper bound of the iterations of all loops of an invocation, counting the last evaluation of each condition. Nil
	// means some hundred for any sizes. A device may end loops early.
	Loops func(c *Call) int
}

// Binding is how a shader accesses an operand.
type Binding struct {
	Name    string
	Operand int
	Of      int // the step of a group whose operand it is
	// Vec is the number of elements per access: 0 for typed access to single elements, 4 for vectors of four f32 or u32, or
	// of four f16 or bf16 that are widened and rounded.
	Vec int
	// DType is the element type in the shader: the operand's, or u32 if its bits are moved as words.
	DType dtype.DType
	// Packed is the type of the blocks that the bytes of U8 are; 0 if they are none.
	Packed dtype.DType
}

// Call is a step for given values of the symbols.
type Call struct {
	In   []program.Operand
	Out  program.Operand   // the result; the first of several
	Outs []program.Operand // all results

	Group []*Call // of the steps of a group, this one's first
}

var registry = map[string]Kernel{}

func register(k Kernel) struct{} {
	if _, ok := ir.Find(k.Op); !ok || registry[k.Op].Op != "" {
		panic("BUG: wgpu: kernel for " + k.Op + ", which is no op or has a kernel already")
	}
	registry[k.Op] = k
	for _, takes := range []string{k.Takes, k.Also} {
		if takes != "" {
			rules = append(rules, target.MustRule("run "+k.Op+strings.ReplaceAll(takes, "any", computed)))
		}
	}
	return struct{}{}
}

// computed is what any means in the rules of this package: the types that shaders compute with. WGSL has no 64-bit ones; kernels that take indices read
// an i64 as the i32 nearest to it, which is out of range where the i64 is.
const computed = "f32|f16|bf16|i32|u32|bool"

// rules are those of the kernels that have registered.
var rules []target.Rule

// Description lists the nodes that the backend runs. The compiler carries a copy, core/target/wgpu.target.
var Description = sync.OnceValue(func() *target.Description {
	d := &target.Description{Name: "wgpu", Version: Version, MaxRank: maxRank, MaxOperands: maxOperands, Rules: rules,
		Types: append([]dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.I8, dtype.I32, dtype.I64, dtype.U8, dtype.U32, dtype.Bool}, dtype.Packed()...)}
	return d.Sort()
})

// Version of the backend.
const Version = "0.1.0"

const (
	// maxRank is the number of axes in the parameters of strided kernels.
	maxRank = 8
	// maxOperands leaves bindings of a shader for the result, the parameters and the status.
	maxOperands = 16
)

// Find returns the kernel that runs a node. If there is none, why is the reason.
func Find(n *ir.Node) (k Kernel, why string) {
	how, why := Description().Takes(n)
	if how != target.Native {
		return Kernel{}, why
	}
	return registry[n.Op.Name], ""
}

// numel is the number of elements of a shape.
func numel(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// dims is a shape padded at the front with 1s to maxRank.
func dims(shape []int) []uint32 {
	out := make([]uint32, maxRank)
	for i := range out {
		out[i] = 1
		if k := i - (maxRank - len(shape)); k >= 0 {
			out[i] = uint32(shape[k])
		}
	}
	return out
}

// strides are the element strides of a dense shape, aligned like dims; 0 for axes of size 1, which are repeated.
func strides(shape []int) []uint32 {
	out := make([]uint32, maxRank)
	n := 1
	for k := len(shape) - 1; k >= 0; k-- {
		if shape[k] != 1 {
			out[maxRank-len(shape)+k] = uint32(n)
		}
		n *= shape[k]
	}
	return out
}

// positive counts a negative axis from the end.
func positive(axis, rank int) int {
	if axis < 0 {
		return axis + rank
	}
	return axis
}

// around is the number of elements before, at and after an axis.
func around(shape []int, axis int) (outer, n, inner int) {
	return numel(shape[:axis]), shape[axis], numel(shape[axis+1:])
}
