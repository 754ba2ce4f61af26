// Package kernels holds the shaders of the GPU backends (wgpu, metal and cuda): for each op, the WGSL that runs it and
// its parameters. A kernel is a .go and a .wgsl file with the same name. Package plugins/internal/gpu runs the steps of
// a program and knows no op.
//
// The package imports only core and no WebGPU binding. Shaders are text here, so they can be written and checked
// without a C compiler or a device.
package kernels

import (
	"math"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op" // registers the ops that kernels name
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
)

// Limits are the properties of a device that kernels depend on.
type Limits struct {
	WorkgroupStorage int // bytes of var<workgroup> memory

	// Matrices means that the device has matrices of 8x8 that 32 invocations share, and that shaders are translated:
	// WGSL has no such type. It is rlx_matrix8x8, of f32. A variable of it is zero at first, and these functions take
	// its address. All 32 invocations call them with the same arguments:
	//
	//	rlx_matrix_load(&m, &memory, at, stride, across)   m's rows, or its columns if across is true,
	//	                                                   begin every stride words at word at
	//	rlx_matrix_store(&m, &memory, at, stride)          likewise
	//	rlx_matrix_multiply_add(&m, &a, &b)                m = m + a b
	//
	// memory is a variable in workgroup memory; stride and across are literals. Bounds are not checked. Also
	// rlx_half8x8, of f16, can be loaded, from memory of u32, where at and stride count halves of words. a and b are
	// matrices of one type, and sums always of f32.
	Matrices bool

	// Precision is device.Load.Precision: empty for f32. Only kernels in Own know others.
	Precision string
	Keeps     bool // there is room for memory of Own.Kept and Kernel.Kept
	// Rounds is a type of 16 bits, to which the shaders of a node also round its result, and write it to RoundedOut in
	// the same order of elements; 0 for none. Rounded says which operands the shaders of a node find so, operand k in
	// RoundedIn+k.
	// They are set only for nodes that can do so: see Own.ReadsRounded.
	// RoundsOnly means that nothing reads the result itself, so it is not written.
	Rounds     dtype.DType
	RoundsOnly bool
	Rounded    [3]bool
	// Own are kernels that the device has of its own, by op.
	Own map[string]Own
	// OwnRowBounds are the numbers of rows of products between which kernels in Own add in another order.
	OwnRowBounds []int
	// OwnVectors, if not nil, returns a shader of the device's own for products of one row, or false if it does not
	// take them. The shader has the bindings of Vectors.
	OwnVectors func(v Vectors) (s Shader, ok bool)
	// OwnDecoding, if not nil, returns shaders of the device's own for attention of one query, or nil if it does not
	// take it. Their Name, Fields, Bindings, Params and Groups are filled in.
	OwnDecoding func(d Decoding) []Shader
	// Lasts reports whether a value is a weight that no step writes, in no run. Nil means that it is not known.
	Lasts func(n *ir.Node) bool

	// AttentionTile is the shape of tiled attention. If it is nil, the kernel chooses one by its sizes.
	AttentionTile *AttentionTile
	// BackwardTile is the shape of attention_backward. If it is nil, the kernel chooses one by its sizes.
	BackwardTile *BackwardTile
	// AttentionMatrices is the shape of tiled attention with matrices. If it is nil, the kernel chooses one.
	AttentionMatrices *AttentionMatrices
	// Tile is the shape of tiled products. If it is nil, the kernel chooses one by the product's sizes.
	Tile *Tile
}

// Kernel runs one op.
type Kernel struct {
	Op string
	// Takes states which nodes the kernel runs: a rule of package target without the op's name. A program with other
	// nodes is refused when it is loaded.
	Takes string
	Also  string // another rule, or empty
	// Refuses tells which values the shaders report through Status. If it is empty, they report an index out of range
	// or a divisor of 0.
	Refuses string
	// Shaders returns the shaders that run the node, in order. They must not depend on anything that changes between
	// runs.
	Shaders func(n *ir.Node, l Limits) []Shader
	// Scratch returns the device memory in bytes that the shaders of a node share, at the symbols' upper bounds. Nil
	// means none.
	Scratch func(n *ir.Node, l Limits) int64
	// Kept returns the memory in bytes that the shaders of a node keep from run to run, for what they make of weights,
	// if Limits.Keeps is set. Nil means none.
	Kept func(n *ir.Node) int64
	// WritesRounded reports whether the shaders of a node can write a rounded result: see Limits.Rounds. Nil means that
	// they cannot.
	WritesRounded func(n *ir.Node) bool
}

// Operand positions other than the index of an operand.
const (
	Out     = -1 // the result, or the first of several
	Scratch = -2 // device memory that belongs to no value
	Status  = -3 // where a shader reports values that its op does not allow

	Kept = math.MinInt // device memory that belongs to a node and lasts from run to run, see Own.Kept

	RoundedOut = math.MinInt + 1 // the result in 16 bits, see Limits.Rounds
	RoundedIn  = math.MinInt + 2 // operand 0 in 16 bits, see Limits.Rounded; RoundedIn+1 and +2: operands 1 and 2
)

// Result is the operand position of result k of an op with several results.
func Result(k int) int {
	if k == 0 {
		return Out
	}
	return Status - k
}

// Shader is a WGSL program for one node, and how to dispatch it.
type Shader struct {
	Name string // of the template; for messages
	Body string // template text; see shader.go
	// Source, if not nil, makes the text instead, in a language of the device's own. Shaders with the same Name and
	// Consts have the same text for the same views.
	Source   func(views []View) (string, error)
	Bindings []Binding
	// Once means that the shader reads nothing but weights. It runs before the first run, and again only after weights
	// have changed. It writes to Kept.
	Once   bool
	Consts any // template data, read as .C
	// Fields declare the members of the parameter struct P: "name" is a u32, "name:f32" an f32, "name:8" an array of 8
	// u32, "name:2x8" an array of 8 vec2<f32>, which must follow an even number of words.
	Fields []string
	// Params returns the values of Fields, flattened. It returns nil if there is nothing to do for these sizes.
	Params func(c *Call) []uint32
	// Groups returns the number of workgroups. The runtime splits it into dimensions that the device allows.
	Groups func(c *Call) int
	// Loops returns an upper bound of the iterations of all loops of an invocation, including the last evaluation of
	// each condition. Nil means at most a few hundred for all sizes. Some devices end loops after too many iterations.
	Loops func(c *Call) int
}

// Binding tells how a shader accesses an operand.
type Binding struct {
	Name    string
	Operand int
	Of      int // in a group: the step that the operand belongs to
	// InPlace says that a result may lie over the operand: each element is read only by the invocation that then writes
	// the result's element at its place.
	InPlace bool
	// Vec is the number of elements per access: 0 for single elements, 4 for vectors of four f32, u32 or bools, or of
	// four f16 or bf16, which are converted to f32 and back.
	Vec int
	// DType is the element type in the shader: that of the operand, or u32 to move its bits as words.
	DType dtype.DType
	// Atomic says that the binding is only added to, by NAME_add; DType is u32.
	Atomic bool
	// Packed is the block type of a U8 operand that holds packed weights; 0 for none. Pairs means that eight of them
	// are read together: see pairGap.
	Packed dtype.DType
	Pairs  bool
}

// Call is a step with its shapes for given values of the symbols.
type Call struct {
	In   []program.Operand
	Out  program.Operand   // the result, or the first of several
	Outs []program.Operand // all results

	Group []*Call // calls of all steps of the group; Group[0] is this one
}

var registry = map[string]Kernel{}

func register(k Kernel) struct{} {
	if _, ok := ir.Find(k.Op); !ok || registry[k.Op].Op != "" {
		panic("BUG: wgpu: kernel for " + k.Op + ", which is not an op or has a kernel already")
	}
	registry[k.Op] = k
	for _, takes := range []string{k.Takes, k.Also} {
		if takes != "" {
			takes = strings.ReplaceAll(takes, "any+", computed+"|i64")
			rules = append(rules, target.MustRule("run "+k.Op+strings.ReplaceAll(takes, "any", computed)))
		}
	}
	return struct{}{}
}

// computed is what "any" means in the rules of this package: the types that shaders compute with. "any+" has i64, too.
// WGSL has no 64-bit types: kernels move an i64 as two words, and wide.wgsl computes with these. Kernels that accept
// i64 indices clamp them to i32; an index out of range stays out of range.
const computed = "f32|f16|bf16|i32|u32|bool"

// rules are the rules of all registered kernels.
var rules []target.Rule

// Description describes the nodes that the backend runs. The compiler has a copy, core/target/wgpu.target.
var Description = sync.OnceValue(func() *target.Description {
	d := &target.Description{Name: "wgpu", Version: Version, MaxRank: maxRank, MaxOperands: maxOperands, Rules: rules,
		ChannelsLast: 16,
		Types: append(
			[]dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.I8, dtype.I32, dtype.I64, dtype.U8, dtype.U32,
				dtype.Bool}, dtype.Packed()...)}
	return d.Sort()
})

// Version of the backend.
const Version = "0.1.0"

const (
	// maxRank is the number of axes in the parameters of strided kernels.
	maxRank = 8
	// maxOperands leaves bindings for the result, the parameters and the status.
	maxOperands = 16
)

// Find returns the kernel that runs a node, or why there is none.
func Find(n *ir.Node) (k Kernel, why string) {
	how, why := Description().Takes(n)
	if how != target.Native {
		return Kernel{}, why
	}
	return registry[n.Op.Name], ""
}

// numel returns the number of elements of a shape.
func numel(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// dims returns a shape, padded at the front with 1s to maxRank axes.
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

// strides returns the strides of a dense shape in elements, padded like dims. Axes of size 1 have stride 0, so they can
// be repeated.
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

// positive converts an axis that is counted from the end to an index.
func positive(axis, rank int) int {
	if axis < 0 {
		return axis + rank
	}
	return axis
}

// around returns the number of elements before, along and after an axis.
func around(shape []int, axis int) (outer, n, inner int) {
	return numel(shape[:axis]), shape[axis], numel(shape[axis+1:])
}
