package gpu

import (
	"cmp"
	"slices"

	"github.com/rlx-go/rlx/core/program"
)

// passing are weights that are read only by shaders that run once (kernels.Shader.Once): for example weights in f32,
// from which such a shader makes the copies in 16 bits that products read. They are on the device only while these
// shaders run: a batch of them at a time.
type passing struct {
	list  []interval  // in the order of the section; at is that in the batch
	batch []int       // of each
	of    map[int]int // by dispatch that is Once: the number of what it reads in list. Others are not in it.
	space *space      // empty except while the shaders run
}

// passingBytes is the size of a batch, unless a weight is larger.
const passingBytes = 32 << 20

// planPassing divides the weights that steps read. It returns those that stay on the device, and plans the others.
func (x *executable) planPassing(stay, pass []interval) []interval {
	p := &x.passing
	p.of, p.space = map[int]int{}, &space{}
	slices.SortFunc(pass, func(a, b interval) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	pass = slices.Compact(pass)
	have := merge(slices.Clone(stay), program.Align, 0)
	for i, r := range pass {
		overlaps := i > 0 && pass[i-1].to > r.from || i+1 < len(pass) && pass[i+1].from < r.to
		k, _ := slices.BinarySearchFunc(have, r.to, func(h interval, to int64) int { return cmp.Compare(h.from, to) })
		if overlaps || k > 0 && have[k-1].to > r.from {
			stay = append(stay, r)
		} else {
			p.list = append(p.list, r)
		}
	}
	if len(p.list) == 0 {
		return stay
	}
	most, at, batch := int64(0), int64(0), 0
	for i := range p.list {
		r := &p.list[i]
		size := program.AlignUp(r.to - r.from)
		if at > 0 && at+size > passingBytes {
			at, batch = 0, batch+1
		}
		r.at, at = at, at+size
		most, p.batch = max(most, at), append(p.batch, batch)
	}
	p.space = x.gpu.planSpace(most)
	for i := range p.list {
		p.list[i].space = p.space
	}
	for i := range x.dispatches {
		d := &x.dispatches[i]
		for _, b := range d.shader.Bindings {
			n := d.operand(b)
			if !d.shader.Once || n == nil || x.program.Places[n.ID].Space != program.Weights {
				continue
			}
			k, ok := slices.BinarySearchFunc(p.list, x.program.Places[n.ID].Offset,
				func(r interval, off int64) int { return cmp.Compare(r.from, off) })
			if ok {
				p.of[i] = k
			}
		}
	}
	return stay
}

// weightsRead returns the ranges of the weights that steps read, also in loops. pass are those that only
// shaders of kernels.Shader.Once read. Each such shader reads one.
func (x *executable) weightsRead() (stay, pass []interval) {
	once, others := map[int]bool{}, map[int]bool{} // by node
	for i := range x.dispatches {
		d := &x.dispatches[i]
		var read []int
		for _, b := range d.shader.Bindings {
			if n := d.operand(b); n != nil && x.program.Places[n.ID].Space == program.Weights {
				read = append(read, n.ID)
			}
		}
		for _, id := range read {
			if d.shader.Once && len(read) == 1 {
				once[id] = true
			} else {
				others[id] = true
			}
		}
	}
	for _, y := range x.all() {
		for _, s := range y.program.Steps {
			for _, in := range y.program.Graph.Nodes[s.Node].Operands() {
				pl := y.program.Places[in.ID]
				r := interval{from: pl.Offset, to: pl.Offset + pl.Size}
				switch {
				case pl.Space != program.Weights || pl.Size == 0:
				case y == x && once[in.ID] && !others[in.ID] && x.program.Loop(s.Node) == nil:
					pass = append(pass, r)
				default:
					stay = append(stay, r)
				}
			}
		}
	}
	return stay, pass
}

// makeKept runs the shaders that read nothing but weights, with the weights section. changed reports which ranges of it
// are valid and new; nil means all. Shaders of other ranges that are not on the device do not run.
func (x *executable) makeKept(section []byte, changed func(r interval) bool) (err error) {
	if x.keptBytes == 0 {
		return nil
	}
	defer caught(&err)
	defer Phase("round weights")()
	if x.bound == nil { // which says how many workgroups they have, for any sizes
		if err := x.bind(x.program.Graph.Syms.Min()); err != nil {
			return err
		}
	}
	p := &x.passing
	news := func(k int) bool { return changed == nil || changed(p.list[k]) }
	run := func(batch int) error { // -1: shaders whose weights are on the device
		return x.gpu.commands(func(e Encoder) error {
			for i := range x.dispatches {
				d := &x.dispatches[i]
				k, passes := p.of[i]
				if d.shader.Once && d.x > 0 && (passes && p.batch[k] == batch && news(k) || !passes && batch < 0) {
					e.Dispatch(d.pipeline, d.bound, d.x, d.y)
				}
			}
			return nil
		})
	}
	if err := run(-1); err != nil || len(p.list) == 0 {
		return err
	}
	if err := x.bindPassing(); err != nil {
		return err
	}
	for k := 0; k < len(p.list); {
		batch := p.batch[k]
		for ; k < len(p.list) && p.batch[k] == batch; k++ {
			if r := p.list[k]; news(k) {
				if err := x.gpu.upload(p.space, r.at, section[r.from:min(r.to, int64(len(section)))]); err != nil {
					return err
				}
			}
		}
		if err := run(batch); err != nil {
			return err
		}
	}
	err = x.gpu.seen(x.gpu.dev.Uploaded())
	x.gpu.drain()
	p.space.empty()
	return err
}

// bindPassing makes the memory for a batch, unless it is made, and binds it.
func (x *executable) bindPassing() error {
	if x.passing.space.buffers[0] != nil {
		return nil // bound by load
	}
	if err := x.passing.space.make(x.gpu, "weights"); err != nil {
		return err
	}
	for i := range x.dispatches {
		if _, ok := x.passing.of[i]; ok {
			if err := x.bindGroup(&x.dispatches[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
