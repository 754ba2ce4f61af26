package elementwise

import (
	"fmt"
	"slices"
	"unsafe"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// A region is a graph of elementwise operations that are computed together, block by block, so that intermediate values
// stay in the L1 cache.

// RegionRef is an operand of a step of a region: an input, the result of an earlier step, or a number.
type RegionRef struct {
	Kind  RegionRefKind
	Index int     // of the input or the step
	Value float32 // of the number
}

// RegionRefKind is the kind of a RegionRef.
type RegionRefKind uint8

// The kinds of operands of a step.
const (
	RegionInput RegionRefKind = iota
	RegionResult
	RegionNumber
)

// RegionStep is one operation of a region. Op is a name that ParseUnary, ParseBinary or ParseCompare knows, "where", or
// the element type of a cast: f32 or bool; in the last step also the other types of RegionValue.
type RegionStep struct {
	Op     string
	Params []float64 // for UnaryOp.With
	In     []RegionRef
}

// RegionValue is a tensor. F32 is set if it is float32; otherwise Bytes and Type are. Of bools, any byte but 0 is true.
// f16, bf16, i8, u8 and i32 are read and written only by casts to and from f32.
type RegionValue struct {
	F32   []float32
	Bytes []uint8
	Type  dtype.DType // element type of Bytes
}

// Len returns the number of elements.
func (v RegionValue) Len() int {
	if v.Bytes != nil {
		return len(v.Bytes) / v.Type.Size()
	}
	return len(v.F32)
}

// regionTypes lists the element types of regions. Steps compute in the first two; see class.
var regionTypes = []dtype.DType{dtype.F32, dtype.Bool, dtype.F16, dtype.BF16, dtype.I8, dtype.U8, dtype.I32}

// dtype returns the element type.
func (v RegionValue) dtype() dtype.DType {
	if v.Bytes != nil {
		return v.Type
	}
	return dtype.F32
}

// Region is a compiled region. It may be run by several pools at once.
type Region struct {
	inputs    []dtype.DType
	steps     []regionStep
	registers [2]int // number of registers, by class: blocks of float32, of bools
	half      *halfRegion
	grain     int // elements that are worth a task
}

// functionCost is how many times longer a function that is not exact, such as exp, takes than an addition.
const functionCost = 8

// regionStep is a compiled step. Its operands are inputs, or registers of one worker.
type regionStep struct {
	run regionRoutine
	in  []regionOperand
	out int // register; -1: dst of the region
	typ dtype.DType
}

// regionOperand is a RegionRef. For a result, Index is its register.
type regionOperand struct {
	RegionRef
	typ dtype.DType
}

const regionBlock = 2048 // elements of a block: 8 KB of float32, a quarter of an L1 cache of 32 KB

// NewRegion compiles steps over inputs of the given element types. The result of the last step is the result of the
// region. The error names a step for which there is no routine.
func NewRegion(types []dtype.DType, steps []RegionStep) (*Region, error) {
	r := &Region{inputs: slices.Clone(types), half: asHalf(types, steps)}
	steps = fuseAffine(types, steps)
	made := make([]dtype.DType, len(steps))
	lastUse := make([]int, len(steps))
	for i, st := range steps {
		for _, ref := range st.In {
			if ref.Kind == RegionResult {
				lastUse[ref.Index] = i
			}
		}
	}
	var free [2][]int // registers
	register := make([]int, len(steps))
	for i, st := range steps {
		in := make([]dtype.DType, len(st.In))
		var out regionStep
		for k, ref := range st.In {
			switch ref.Kind {
			case RegionInput:
				in[k] = types[ref.Index]
			case RegionResult:
				in[k] = made[ref.Index]
			case RegionNumber:
				in[k] = dtype.F32
			}
			out.in = append(out.in, regionOperand{ref, in[k]})
		}
		if out.run, made[i] = regionRun(st, in); out.run == nil || !slices.Contains(regionTypes[:2], made[i]) &&
			i < len(steps)-1 {
			return nil, fmt.Errorf("region: step %d: no routine for %s with %d operands of these types", i, st.Op,
				len(st.In))
		}
		out.typ = made[i]
		for k, ref := range st.In {
			if ref.Kind != RegionResult {
				continue
			}
			out.in[k].Index = register[ref.Index]
			if lastUse[ref.Index] == i {
				lastUse[ref.Index] = -1 // so that an operand that appears twice is freed once
				free[class(made[ref.Index])] = append(free[class(made[ref.Index])], register[ref.Index])
			}
		}
		// The result may overwrite the register of an operand that is not used later: all routines read an element
		// before they write it.
		c := class(made[i])
		switch n := len(free[c]); {
		case i == len(steps)-1:
			out.out = -1
		case n > 0:
			out.out, free[c] = free[c][n-1], free[c][:n-1]
		default:
			out.out = r.registers[c]
			r.registers[c]++
		}
		register[i] = out.out
		r.steps = append(r.steps, out)
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("region: no steps")
	}
	r.grain = pool.Grain
	if slices.ContainsFunc(
		steps, func(st RegionStep) bool { u, ok := ParseUnary(st.Op); return ok && functions[u.id].ulp != 0 }) {
		r.grain = max(pool.Grain/functionCost, regionBlock)
	}
	return r, nil
}

// affineStep is the op of steps that fuseAffine makes: (x - zero) * scale, for x of type i8 or u8.
const affineStep = "affine"

// fuseAffine replaces casts of 8-bit integers to f32 that are then multiplied, as in dequantisation, by one step:
// f32(x), perhaps minus a number, times an operand.
func fuseAffine(types []dtype.DType, steps []RegionStep) []RegionStep {
	uses := make([]int, len(steps))
	for _, st := range steps {
		for _, ref := range st.In {
			if ref.Kind == RegionResult {
				uses[ref.Index]++
			}
		}
	}
	// result returns the step that computes operand k of step i if its op is op and this is its only use, else -1.
	result := func(i, k int, op string) int {
		if ref := steps[i].In[k]; ref.Kind == RegionResult && uses[ref.Index] == 1 && steps[ref.Index].Op == op {
			return ref.Index
		}
		return -1
	}
	gone, at, out := make([]bool, len(steps)), make([]int, len(steps)), []RegionStep(nil)
	steps = slices.Clone(steps)
	for i, st := range steps {
		if st.Op != "mul" {
			continue
		}
		from, zero := i, RegionRef{Kind: RegionNumber}
		if j := result(i, 0, "sub"); j >= 0 && steps[j].In[1].Kind == RegionNumber {
			from, zero = j, steps[j].In[1]
		}
		cast := result(from, 0, "f32")
		if cast < 0 {
			continue
		}
		x := steps[cast].In[0]
		if x.Kind != RegionInput || types[x.Index] != dtype.I8 && types[x.Index] != dtype.U8 {
			continue
		}
		gone[cast], gone[from] = true, from != i
		steps[i] = RegionStep{Op: affineStep, In: []RegionRef{x, zero, st.In[1]}}
	}
	for i, st := range steps {
		if gone[i] {
			continue
		}
		in := slices.Clone(st.In)
		for k, ref := range in {
			if ref.Kind == RegionResult {
				in[k].Index = at[ref.Index]
			}
		}
		at[i] = len(out)
		out = append(out, RegionStep{Op: st.Op, Params: st.Params, In: in})
	}
	return out
}

// class returns the class of registers for results of a type.
func class(d dtype.DType) int {
	if d == dtype.Bool {
		return 1
	}
	return 0
}

// Run computes dst, which has the type of the last step's result. An input may have fewer elements than dst: element i
// of dst reads element i modulo their number, which broadcasts leading axes. An input of the same size may be dst
// itself.
func (r *Region) Run(p *pool.Pool, dst RegionValue, in []RegionValue) {
	n := dst.Len()
	if n == 0 {
		return
	}
	if len(in) != len(r.inputs) || dst.dtype() != r.steps[len(r.steps)-1].typ {
		panic("BUG: Region.Run: wrong inputs or result")
	}
	for i, v := range in {
		if v.dtype() != r.inputs[i] || v.Len() == 0 || n%v.Len() != 0 {
			panic(fmt.Sprintf("BUG: Region.Run: input %d of %d elements for %d", i, v.Len(), n))
		}
	}
	job := pool.Keep[regionJob](p)
	job.p, job.r, job.dst, job.in = p, r, dst, in
	if job.blocks == nil {
		job.blocks = make([]regionBlocks, p.Threads())
	}
	p.Share(n, r.grain, job)
}

// regionJob is the state of a call of Region.Run.
type regionJob struct {
	p      *pool.Pool
	r      *Region
	dst    RegionValue
	in     []RegionValue
	blocks []regionBlocks // by worker
}

func (j *regionJob) Do(lo, hi, worker int) {
	b := &j.blocks[worker]
	b.init(j.p.Set, j.r, j.p.Scratch(worker), j.in, min(regionBlock, hi-lo))
	for ; lo < hi; lo += regionBlock {
		n := min(regionBlock, hi-lo)
		b.run(j.p.Set, j.dst.slice(lo, n), j.in, lo, n)
	}
}

// regionBlocks is the state of a worker. Its slices are kept for the next run.
type regionBlocks struct {
	r     *Region
	regs  [2][]RegionValue                   // by class
	tiled []RegionValue                      // for each input that repeats: elements of it, repeated
	phase []int                              // the element of the input with which these begin; -1: not filled
	nums  [][3][]float32                     // for each step: a block filled with each number that it takes
	args  [3]RegionValue                     // operands of the current step
	half  func(dst, a, b []uint16)           // the set's routine for the halfRegion
	mixed func(dst, a []uint16, b []float32) // or this one, if an operand is f32
}

// init prepares blocks of at most size elements. Filling longer ones with numbers takes longer than a short region.
func (b *regionBlocks) init(s *isa.Set, r *Region, sc *pool.Scratch, in []RegionValue, size int) {
	b.r, b.half, b.mixed = r, nil, nil
	if h := r.half; h != nil && h.wide < 0 {
		b.half = On(s).half[h.function]
	} else if h != nil {
		b.mixed = On(s).halfMixed[mixedFunction{h.function, h.wide == 0}]
	}
	for class := range b.regs {
		b.regs[class] = b.regs[class][:0]
		for range r.registers[class] {
			b.regs[class] = append(b.regs[class], newBlock(sc, regionTypes[class], size))
		}
	}
	b.tiled, b.phase = b.tiled[:0], b.phase[:0]
	for i, v := range in {
		n := size
		if v.Len() <= regionBlock {
			n += v.Len()
		}
		b.tiled, b.phase = append(b.tiled, newBlock(sc, r.inputs[i], n)), append(b.phase, -1)
	}
	b.nums = b.nums[:0]
	for _, st := range r.steps {
		var nums [3][]float32
		for k, ref := range st.in {
			if ref.Kind == RegionNumber {
				nums[k] = SpreadTo(sc.Floats(size), ref.Value, size)
			}
		}
		b.nums = append(b.nums, nums)
	}
}

func newBlock(sc *pool.Scratch, d dtype.DType, n int) RegionValue {
	f := sc.Floats(n)
	if d == dtype.F32 {
		return RegionValue{F32: f}
	}
	return RegionValue{Bytes: unsafe.Slice((*uint8)(unsafe.Pointer(&f[0])), n*d.Size()), Type: d}
}

// run computes elements [lo, lo+n) of the result, which it stores in dst.
func (b *regionBlocks) run(s *isa.Set, dst RegionValue, in []RegionValue, lo, n int) {
	args := &b.args
	if b.half != nil || b.mixed != nil {
		b.runHalf(dst, in, lo, n)
		return
	}
	for i, st := range b.r.steps {
		for k, ref := range st.in {
			switch ref.Kind {
			case RegionInput:
				args[k] = b.input(ref.Index, in[ref.Index], lo, n)
			case RegionResult:
				args[k] = b.regs[class(ref.typ)][ref.Index].slice(0, n)
			case RegionNumber:
				args[k] = RegionValue{F32: b.nums[i][k][:n]}
			}
		}
		out := dst
		if st.out >= 0 {
			out = b.regs[class(st.typ)][st.out].slice(0, n)
		}
		st.run(s, out, args)
	}
}

// input returns elements [lo, lo+n) of input i: in place, or repeated. A short input is repeated once, so that a block
// may begin at any of its elements; a longer one only where a block crosses its end. No block is longer than the first.
func (b *regionBlocks) input(i int, v RegionValue, lo, n int) RegionValue {
	period := v.Len()
	at := lo % period
	if at+n <= period {
		return v.slice(at, n)
	}
	from, room := at, n
	if period <= regionBlock {
		from, room = 0, period+n
	}
	if b.phase[i] != from {
		b.phase[i] = from
		if v.Bytes != nil {
			tile(b.tiled[i].slice(0, room).Bytes, v.Bytes, from*v.Type.Size())
		} else {
			tile(b.tiled[i].F32[:room], v.F32, from)
		}
	}
	return b.tiled[i].slice(at-from, n)
}

func (v RegionValue) slice(at, n int) RegionValue {
	if v.Bytes != nil {
		size := v.Type.Size()
		return RegionValue{Bytes: v.Bytes[at*size : (at+n)*size], Type: v.Type}
	}
	return RegionValue{F32: v.F32[at : at+n]}
}

// tile is dst[i] = src[(at+i) % len(src)].
func tile[T any](dst, src []T, at int) {
	done := copy(dst, src[at:])
	done += copy(dst[done:], src[:at])
	for done < len(dst) { // each copy doubles the part that is filled
		done += copy(dst[done:], dst[:done])
	}
}
