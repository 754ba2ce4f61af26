package devicetest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// threadCounts are the numbers of threads that most checks use. All must give the same bits.
var threadCounts = []int{1, 2, 3}

// opChecks returns the checks of one op. Their names have the form OP/CASE/KIND, with these kinds:
//
//   - inputs, weights, weights-f16, weights-bf16, arena: the case in one form (see form)
//   - resized-K: the case with other sizes
//   - special: NaN, infinities and denormals have the right results
//   - spread: no other element becomes NaN
//   - extreme: the smallest and largest integers
//
// The check OP/threads compares numbers of threads; OP/typed-K/compiled are those of compiledChecks.
func (s *suite) opChecks(t tested, e effort) []check {
	var checks []check
	def := t.def
	seen := map[string]int{} // number of cases with special values, by element types and attributes
	var largest *subject
	for i, c := range t.cases() {
		sub, err := newSubject(def, c)
		name := fmt.Sprintf("%s/%d", t.name, i)
		seed := seedOf(name)
		addOf := func(of subject, kind string, f func() error) {
			checks = append(checks, check{name + "/" + kind, f, of.tags(kind)})
		}
		add := func(kind string, f func() error) { addOf(sub, kind, f) }
		if err != nil {
			add("case", func() error { return err })
			continue
		}
		if largest == nil || sub.elements() > largest.elements() {
			largest = &sub
		}
		add("inputs", func() error { return s.checkForm(sub, form{name: "inputs"}, 1+i%3, seed) })
		if f, ok := sub.weightForm(); ok {
			add("weights", func() error { return s.checkForm(sub, f, 1+i%3, seed) })
			for _, d := range []dtype.DType{dtype.F16, dtype.BF16} {
				if n, ok := sub.narrowed(f, d); ok {
					addOf(n, "weights-"+d.String(), func() error { return s.checkForm(n, f, 1+i%3, seed) })
				}
			}
		}
		if e == full || i%3 == 0 {
			add("arena", func() error { return s.checkForm(sub, form{name: "arena", arena: true}, 1+i%3, seed) })
		}
		for k := range tries(e, 1, 8) {
			if n, ok := sub.resized(rand.New(rand.NewPCG(seed, uint64(k)))); ok {
				add(fmt.Sprintf("resized-%d", k), func() error { return s.checkResized(n, k, seed) })
			}
		}
		key := fmt.Sprint(dtypes(sub), sub.Attrs)
		if sub.elements() > 4 && def.FLOPs(sub.Attrs, sub.In, sub.outs...) < 300_000 && seen[key] < tries(e, 1, 2) {
			seen[key]++
			// A loop makes rounding errors of special values grow without a bound that its definition could name.
			if hasFloats(sub) && def.Name != "param" && !def.Nested {
				add("special", func() error { return s.checkSpecial(sub, lost, e, seed) })
				add("spread", func() error { return s.checkSpecial(sub, spread, e, seed) })
			}
			if hasInts(sub) && def.Name != "param" {
				add("extreme", func() error { return s.checkExtremes(sub, seed) })
			}
		}
	}
	if largest != nil {
		checks = append(
			checks, check{t.name + "/threads", func() error { return s.checkThreads(*largest) }, []string{"threads"}})
	}
	if t.name != def.Name { // a custom op, which a backend runs as it is or not at all
		return checks
	}
	return append(checks, s.compiledChecks(def)...)
}

// tags returns the kind of the check and the element types of the operands and results.
func (s subject) tags(kind string) []string {
	kind, _, _ = strings.Cut(kind, "-") // resized-3 has the kind resized, weights-f16 the kind weights
	tags := []string{kind}
	for _, d := range dtypes(s) {
		tags = append(tags, "of "+d.String())
	}
	for _, t := range s.outs {
		tags = append(tags, "to "+t.DType.String())
	}
	return tags
}

// runnable reports whether a program may contain the op and the suite can test it alone. Blocks are lowered before, and
// result nodes are tested with their ops.
func runnable(d *ir.OpDef) bool { return !d.Block && d != ir.ResultDef }

func tries(e effort, brief, full int) int {
	return map[effort]int{0: brief, 1: full}[e]
}

func seedOf(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

func dtypes(s subject) (out []dtype.DType) {
	for _, k := range s.present() {
		out = append(out, s.In[k].DType)
	}
	return out
}

func hasFloats(s subject) bool { return slices.ContainsFunc(dtypes(s), dtype.DType.IsFloat) }

func hasInts(s subject) bool {
	return slices.ContainsFunc(dtypes(s), func(d dtype.DType) bool { return !d.IsFloat() && !d.IsPacked() })
}

// rigged loads the program of sub, calls do, and closes the executable.
func (s *suite) rigged(sub subject, f form, threads int, in []*tensor.Array, do func(r *rig) error) (err error) {
	p, params, err := sub.build(f, in)
	if err != nil {
		return fmt.Errorf("BUG: devicetest: %v: %w", sub, err)
	}
	r, err := s.load(p, params, device.Load{Threads: threads})
	if err != nil {
		return fmt.Errorf("%v: %w", sub, err)
	}
	defer r.close(&err)
	return do(r)
}

// checkForm runs one form three times: on some values, on other values, and in another IO space on the first values
// again. The first and third runs must give the same bits: state that an executable keeps between runs must not affect
// results.
func (s *suite) checkForm(sub subject, f form, threads int, seed uint64) error {
	a, b := sub.random(seed), sub.random(seed+1)
	for k, w := range f.weights {
		if w {
			b[k] = a[k]
		}
	}
	if sub.def.Name == "param" {
		b = a
	}
	return s.rigged(sub, f, threads, a, func(r *rig) error {
		first, err := sub.verify(r, a)
		if err != nil {
			return err
		}
		if _, err := sub.verify(r, b); err != nil {
			return fmt.Errorf("second run, other values: %w", err)
		}
		r.move()
		again, err := sub.verify(r, a)
		if err != nil {
			return fmt.Errorf("third run, another IO space: %w", err)
		}
		return sameBits("two runs on the same values", first, again)
	})
}

// checkResized runs a subject with other sizes once. Its weights are inputs if k is even and params if it is odd.
func (s *suite) checkResized(sub subject, k int, seed uint64) error {
	f, in := form{name: "inputs"}, sub.random(seed+uint64(k))
	if w, ok := sub.weightForm(); ok && k%2 == 1 {
		f = w
	}
	return s.rigged(sub, f, 2, in, func(r *rig) error {
		_, err := sub.verify(r, in)
		return err
	})
}

// checkSpecial puts NaN, infinities, zeros of both signs and denormals among the operands. Elementwise ops get many of
// them at once. Other ops get one at a time, so that the whole result does not become NaN.
func (s *suite) checkSpecial(sub subject, cmp comparison, e effort, seed uint64) error {
	in := sub.random(seed)
	rng := rand.New(rand.NewPCG(seed, 5))
	return s.rigged(sub, form{name: "inputs"}, 1, in, func(r *rig) error {
		if sub.manySpecials() {
			for range tries(e, 2, 6) {
				many := sub.random(seed)
				dense(rng, many)
				if _, err := sub.verifyWith(cmp, r, many); err != nil {
					return err
				}
			}
			return nil
		}
		for k, x := range in {
			if x == nil || len(x.Floats) == 0 {
				continue
			}
			for _, v := range specials(x.DType) {
				i := rng.IntN(len(x.Floats))
				was := x.Floats[i]
				x.Floats[i] = v
				if _, err := sub.verifyWith(cmp, r, in); err != nil {
					return fmt.Errorf("element %d of operand %d is %v: %w", i, k, v, err)
				}
				x.Floats[i] = was
			}
		}
		return nil
	})
}

// manySpecials reports whether each element of the op's result depends only on the elements at the same position of its
// operands.
func (s subject) manySpecials() bool { return s.def.Elementwise && !s.def.CanLower() }

// checkExtremes puts the smallest and largest integers among the operands. Results must wrap. An index out of range or
// a divisor of 0 must be an error of the run, and the executable must work afterwards.
func (s *suite) checkExtremes(sub subject, seed uint64) error {
	in := sub.random(seed)
	rng := rand.New(rand.NewPCG(seed, 6))
	return s.rigged(sub, form{name: "inputs"}, 2, in, func(r *rig) error {
		for range 3 {
			extreme := sub.random(seed)
			extremes(rng, extreme)
			if _, err := sub.verify(r, extreme); err != nil {
				return err
			}
		}
		_, err := sub.verify(r, in)
		return err
	})
}

// checkThreads runs the op's largest case on different numbers of threads. It first enlarges the case if the op accepts
// larger sizes.
func (s *suite) checkThreads(sub subject) error {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 6 {
		if n, ok := sub.resized(rng); ok && n.elements() > sub.elements() {
			sub = n
		}
	}
	in := sub.random(9)
	var first map[string]tensor.Tensor
	for _, n := range threadCounts {
		err := s.rigged(sub, form{name: "inputs"}, n, in, func(r *rig) error {
			got, err := sub.verify(r, in)
			if first == nil {
				first = got
			}
			if err != nil {
				return err
			}
			return sameBits(fmt.Sprintf("%d and %d threads", threadCounts[0], n), first, got)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
