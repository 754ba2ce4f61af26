package kernels

import (
	"fmt"
	"slices"
)

// A region is a chain of elementwise operations that is run block by block, so that intermediate values stay in the
// first-level cache.

// RegionRef is what a step of a region reads: an input, the result of an earlier step, or a number.
type RegionRef struct {
	Kind  RegionRefKind
	Index int     // of the input, or of the step
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

// RegionStep is one operation of a region: its name, as ParseUnary, ParseBinary and ParseCompare take it, "where", or a cast to "f32" or "bool".
type RegionStep struct {
	Op     string
	Params []float64 // of a function, as UnaryOp.With takes them
	In     []RegionRef
}

// RegionValue is a tensor of float32 or of bools (bytes, of which any but 0 is true); the other slice is nil.
type RegionValue struct {
	F32  []float32
	Bool []uint8
}

// Len is the number of elements.
func (v RegionValue) Len() int { return max(len(v.F32), len(v.Bool)) }

// Region is a compiled region. It may be run by several pools at once.
type Region struct {
	inputs    []bool // whether input i is of bools
	steps     []regionStep
	registers [2]int // blocks of float32, of bools
}

// regionStep has operands that are inputs, or blocks of one worker.
type regionStep struct {
	run func(s *isa, dst RegionValue, in *[3]RegionValue)
	in  []regionOperand
	out int  // register; -1: the result of the region
	bit bool // the result is of bools
}

// regionOperand is a RegionRef whose Index, of a result, is its register.
type regionOperand struct {
	RegionRef
	bit bool // of bools
}

const regionBlock = 2048 // elements; a block of float32 takes a quarter of a first-level cache

// NewRegion compiles steps over inputs, where bools[i] is set if input i is of bools. The last step is the result. An
// error names a step for which there is no routine.
func NewRegion(bools []bool, steps []RegionStep) (*Region, error) {
	r := &Region{inputs: slices.Clone(bools)}
	bit := make([]bool, len(steps)) // whether a step's result is of bools
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
		isBool := make([]bool, len(st.In))
		var out regionStep
		for k, ref := range st.In {
			switch ref.Kind {
			case RegionInput:
				isBool[k] = bools[ref.Index]
			case RegionResult:
				isBool[k] = bit[ref.Index]
			}
			out.in = append(out.in, regionOperand{ref, isBool[k]})
		}
		if out.run, bit[i] = regionRun(st, isBool); out.run == nil {
			return nil, fmt.Errorf("step %d: no kernel for %s of %d operands of these types", i, st.Op, len(st.In))
		}
		out.bit = bit[i]
		for k, ref := range st.In {
			if ref.Kind != RegionResult {
				continue
			}
			out.in[k].Index = register[ref.Index]
			if lastUse[ref.Index] == i {
				lastUse[ref.Index] = -1 // an operand that appears twice is freed once
				free[class(bit[ref.Index])] = append(free[class(bit[ref.Index])], register[ref.Index])
			}
		}
		// The result may take the register of an operand that is used last here: all routines read an element before they write it.
		c := class(bit[i])
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
		return nil, fmt.Errorf("no steps")
	}
	return r, nil
}

func class(isBool bool) int {
	if isBool {
		return 1
	}
	return 0
}

// regionRun is the routine of a step and whether its result is bools; nil if there is none for operands of these types.
func regionRun(st RegionStep, bools []bool) (run func(s *isa, dst RegionValue, in *[3]RegionValue), isBool bool) {
	name := st.Op
	if name == "where" && len(bools) == 3 && bools[0] && bools[1] == bools[2] {
		if bools[1] {
			return func(_ *isa, dst RegionValue, in *[3]RegionValue) {
				whereRow(dst.Bool, in[0].Bool, in[1].Bool, in[2].Bool, 1, 1, 1)
			}, true
		}
		return func(s *isa, dst RegionValue, in *[3]RegionValue) { s.choose(dst.F32, in[0].Bool, in[1].F32, in[2].F32) }, false
	}
	if u, ok := ParseUnary(name); ok && len(bools) == 1 && !bools[0] {
		u = u.With(st.Params...)
		return func(s *isa, dst RegionValue, in *[3]RegionValue) { s.apply(u, dst.F32, in[0].F32) }, false
	}
	if t, ok := ParsePredicate(name); ok && len(bools) == 1 && !bools[0] {
		return func(s *isa, dst RegionValue, in *[3]RegionValue) { s.test[t](dst.Bool, in[0].F32) }, true
	}
	if len(bools) == 1 && (name == "f32" || name == "bool") {
		return regionCast(bools[0], name == "bool")
	}
	if name == "not" && len(bools) == 1 && bools[0] {
		return func(s *isa, dst RegionValue, in *[3]RegionValue) { s.bits[boolNot](dst.Bool, in[0].Bool, in[0].Bool) }, true
	}
	if b, ok := ParseBinary(name); ok && b.TakesBools() && len(bools) == 2 && bools[0] && bools[1] {
		return func(s *isa, dst RegionValue, in *[3]RegionValue) {
			s.bits[logical(b)](dst.Bool, in[0].Bool, in[1].Bool)
		}, true
	}
	if b, ok := ParseBinary(name); ok && b.TakesFloats() && len(bools) == 2 && !bools[0] && !bools[1] {
		return func(s *isa, dst RegionValue, in *[3]RegionValue) {
			s.binary[b](dst.F32, in[0].F32, in[1].F32)
		}, false
	}
	if c, ok := ParseCompare(name); ok && len(bools) == 2 && bools[0] == bools[1] {
		if bools[0] {
			return func(_ *isa, dst RegionValue, in *[3]RegionValue) {
				for i := range dst.Bool { // any byte but 0 is true, so compare truth and not bytes
					dst.Bool[i] = truth(c, class(in[0].Bool[i] != 0), class(in[1].Bool[i] != 0))
				}
			}, true
		}
		return func(s *isa, dst RegionValue, in *[3]RegionValue) { s.compare[c](dst.Bool, in[0].F32, in[1].F32) }, true
	}
	return nil, false
}

// regionCast converts between floats and bools.
func regionCast(from, to bool) (run func(s *isa, dst RegionValue, in *[3]RegionValue), isBool bool) {
	return func(_ *isa, dst RegionValue, in *[3]RegionValue) {
		switch {
		case from && to:
			for i, x := range in[0].Bool {
				dst.Bool[i] = min(x, 1)
			}
		case from:
			for i, x := range in[0].Bool {
				dst.F32[i] = float32(min(x, 1))
			}
		case to:
			for i, x := range in[0].F32 {
				dst.Bool[i] = bit(x != 0)
			}
		default:
			copy(dst.F32, in[0].F32)
		}
	}, to
}

// Run computes the region over dst, which has the type of the last step's result. Each input has as many elements as dst, or
// as many as a suffix of its shape has (element i of the result reads element i modulo their number), and may be dst if it has as
// many.
func (r *Region) Run(p *Pool, dst RegionValue, in []RegionValue) {
	n := dst.Len()
	if n == 0 {
		return
	}
	if len(in) != len(r.inputs) || (dst.Bool != nil) != r.steps[len(r.steps)-1].bit {
		panic("BUG: Region.Run: wrong inputs or result")
	}
	for i, v := range in {
		if (v.Bool != nil) != r.inputs[i] || v.Len() == 0 || n%v.Len() != 0 {
			panic(fmt.Sprintf("BUG: Region.Run: input %d of %d elements for %d", i, v.Len(), n))
		}
	}
	job := keep[regionJob](p)
	job.p, job.r, job.dst, job.in = p, r, dst, in
	if job.blocks == nil {
		job.blocks = make([]regionBlocks, len(p.workers))
	}
	p.share(n, elementGrain, job)
}

// regionJob is the state of one run of a Region.
type regionJob struct {
	p      *Pool
	r      *Region
	dst    RegionValue
	in     []RegionValue
	blocks []regionBlocks // by worker
}

func (j *regionJob) do(lo, hi, worker int) {
	b := &j.blocks[worker]
	b.init(j.r, j.p.scratch(worker), len(j.in))
	for ; lo < hi; lo += regionBlock {
		b.run(j.p.isa, j.dst, j.in, lo, min(regionBlock, hi-lo))
	}
}

// regionBlocks is the state of one worker. Its slices are kept for the next run.
type regionBlocks struct {
	r     *Region
	regs  [2][]RegionValue // by class
	tiled []RegionValue    // a block of each input that repeats, from element phase[i] on
	phase []int
	nums  [][3][]float32 // per step: a block of each number
	args  [3]RegionValue // of the current step
}

func (b *regionBlocks) init(r *Region, sc *scratch, inputs int) {
	b.r = r
	for class := range b.regs {
		b.regs[class] = b.regs[class][:0]
		for range r.registers[class] {
			b.regs[class] = append(b.regs[class], newBlock(sc, class == 1))
		}
	}
	b.tiled, b.phase = b.tiled[:0], b.phase[:0]
	for i := range inputs {
		b.tiled, b.phase = append(b.tiled, newBlock(sc, r.inputs[i])), append(b.phase, -1)
	}
	b.nums = b.nums[:0]
	for _, st := range r.steps {
		var nums [3][]float32
		for k, ref := range st.in {
			if ref.Kind == RegionNumber {
				nums[k] = spreadTo(sc.floats(regionBlock), ref.Value, regionBlock)
			}
		}
		b.nums = append(b.nums, nums)
	}
}

func newBlock(sc *scratch, bools bool) RegionValue {
	if bools {
		return RegionValue{Bool: sc.octets(regionBlock)}
	}
	return RegionValue{F32: sc.floats(regionBlock)}
}

// run computes elements [lo, lo+n) of the result.
func (b *regionBlocks) run(s *isa, dst RegionValue, in []RegionValue, lo, n int) {
	args := &b.args
	for i, st := range b.r.steps {
		for k, ref := range st.in {
			switch ref.Kind {
			case RegionInput:
				args[k] = b.input(ref.Index, in[ref.Index], lo, n)
			case RegionResult:
				args[k] = b.regs[class(ref.bit)][ref.Index].slice(0, n)
			case RegionNumber:
				args[k] = RegionValue{F32: b.nums[i][k][:n]}
			}
		}
		out := dst.slice(lo, n)
		if st.out >= 0 {
			out = b.regs[class(st.bit)][st.out].slice(0, n)
		}
		st.run(s, out, args)
	}
}

// input is elements [lo, lo+n) of input i: in place, or repeated.
func (b *regionBlocks) input(i int, v RegionValue, lo, n int) RegionValue {
	period := v.Len()
	at := lo % period
	if at+n <= period {
		return v.slice(at, n)
	}
	if b.phase[i] != at {
		b.phase[i] = at
		if v.Bool != nil {
			tile(b.tiled[i].Bool, v.Bool, at)
		} else {
			tile(b.tiled[i].F32, v.F32, at)
		}
	}
	return b.tiled[i].slice(0, n)
}

func (v RegionValue) slice(at, n int) RegionValue {
	if v.Bool != nil {
		return RegionValue{Bool: v.Bool[at : at+n]}
	}
	return RegionValue{F32: v.F32[at : at+n]}
}

// tile is dst[i] = src[(at+i) % len(src)].
func tile[T any](dst, src []T, at int) {
	done := copy(dst, src[at:])
	done += copy(dst[done:], src[:at])
	for done < len(dst) { // doubles what is done each time
		done += copy(dst[done:], dst[:done])
	}
}
