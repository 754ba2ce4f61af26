package gpu

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// interval is the range [from, to) of the weights section. On the device it begins at offset at of a space.
type interval struct {
	from, to, at int64
	space        *space
}

// plan chooses shaders, plans memory and generates the texts of the shaders. It does not use the device.
func (x *executable) plan() error {
	if err := x.planSteps(); err != nil {
		return err
	}
	if err := x.planLoops(); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, s := range x.program.Steps {
		names[x.program.Graph.Nodes[s.Node].OpName()] = true
	}
	for name := range names {
		x.kernels = append(x.kernels, device.Kernel{Op: name, Native: true})
	}
	slices.SortFunc(x.kernels, func(a, b device.Kernel) int { return strings.Compare(a.Op, b.Op) })
	x.planWeights()
	x.arena, x.io = x.gpu.planSpace(x.program.ArenaSize), x.planIO()
	x.kept = x.gpu.planSpace(x.keptBytes)
	x.rounded.space = x.gpu.planSpace(x.rounded.bytes)
	x.scratch, x.status = x.gpu.planSpace(x.scratchBytes), x.gpu.planSpace(x.statusBytes())
	x.stateShape = x.gpu.planSpace(x.program.StateSize)
	x.planTransfers()
	return x.planTexts()
}

// planSteps chooses the shaders of the program's steps, but not of the programs of its loops.
func (x *executable) planSteps() error {
	root := x.base()
	x.limits.Lasts = func(n *ir.Node) bool {
		return kernels.IsWeight(n) && x.program.Places[n.ID].Space == program.Weights
	}
	groups := x.findGroups()
	x.planRounded(groups)
	var found []kernels.Kernel // kernel of each step
	for i, s := range x.program.Steps {
		n := x.program.Graph.Nodes[s.Node]
		k, why := kernels.Find(n)
		if why != "" {
			return diag.New(device.ErrUnsupported, n.OpName(), "step %d, %s: the %s backend has no kernel for %v: %s",
				i+1, n.Label(), x.gpu.api.Name(), n, why)
		}
		found = append(found, k)
		if k.Scratch != nil {
			root.scratchBytes = max(root.scratchBytes, k.Scratch(n, x.limitsOf(n)))
		}
	}
	for i := 0; i < len(x.program.Steps); {
		if l := x.program.Loop(x.program.Steps[i].Node); l != nil {
			x.addLoop(i, l)
			i++
			continue
		}
		group := groups[i]
		steps := len(group.steps)
		number := -1
		if steps > 0 {
			number = x.groups
			x.groups++
		}
		for end := i + max(steps, 1); i < end; i++ {
			n := x.program.Graph.Nodes[x.program.Steps[i].Node]
			shaders := x.shadersOf(n, found[i])
			if few := x.gpu.limits.Shaders; few > 0 {
				shaders = shaders[:min(few, len(shaders))]
			}
			for _, s := range shaders {
				x.add(dispatch{step: i, node: n, shader: s, group: number})
			}
		}
		for _, s := range group.shaders {
			x.add(dispatch{step: i - 1, node: group.steps[steps-1], shader: s, steps: group.steps, group: number})
		}
	}
	x.paramBytes = max(x.paramBytes, program.Align)
	return nil
}

// limitsOf returns the limits for a node.
func (x *executable) limitsOf(n *ir.Node) kernels.Limits {
	limits := x.limits
	for _, in := range n.Operands() { // what is in other spaces may change from run to run
		limits.Keeps = limits.Keeps && (!kernels.IsWeight(in) || x.program.Places[in.ID].Space == program.Weights)
	}
	limits.Rounds = x.rounded.types[n.ID]
	for k := range limits.Rounded {
		limits.Rounded[k] = x.rounded.readers[operandOf{n.ID, k}] != nil
	}
	limits.RoundsOnly = x.rounded.only[n.ID]
	return limits
}

// shadersOf returns the shaders of a node, and plans the memory that they keep.
func (x *executable) shadersOf(n *ir.Node, k kernels.Kernel) []kernels.Shader {
	limits := x.limitsOf(n)
	if bytes := limits.KeptBytes(n); bytes > 0 {
		if x.keptAt == nil {
			x.keptAt = map[int]int64{}
		}
		x.keptAt[n.ID] = x.keptBytes
		x.keptBytes += program.AlignUp(bytes)
	}
	return k.Shaders(n, limits)
}

// planIO plans the io space, over the host's memory if possible.
func (x *executable) planIO() *space {
	if int64(len(x.hostIO)) < x.program.IOSize || !x.gpu.atPage(x.hostIO[:x.program.IOSize]) {
		return x.gpu.planSpace(x.program.IOSize)
	}
	s := x.gpu.spaceOver(x.hostIO[:x.program.IOSize], x.program.IOSize)
	for _, pl := range x.program.Places {
		// an empty value at the end needs slack, which memory of the host lacks
		if pl.Space == program.IO && pl.Offset >= s.bytes {
			return x.gpu.planSpace(x.program.IOSize)
		}
	}
	return s
}

// add appends a dispatch, and assigns it a range of the parameter buffer and, if its shader can refuse values, a slot
// in the status buffer.
func (x *executable) add(d dispatch) {
	d.status = -1
	if slices.ContainsFunc(d.shader.Bindings, func(b kernels.Binding) bool { return b.Operand == kernels.Status }) {
		d.status = x.slot()
	}
	d.stateful = x.isStateful(d.shader, &d)
	x.reserve(&d)
	x.dispatches = append(x.dispatches, d)
}

// slot returns a new slot in the status buffer.
func (x *executable) slot() int {
	root := x.base()
	root.statuses++
	return root.statuses - 1
}

// reserve assigns a dispatch a range of the parameter buffer.
func (x *executable) reserve(d *dispatch) {
	d.at, d.size = x.paramBytes, max(4, 4*int64(d.shader.ParamWords()))
	x.paramBytes += program.AlignUp(d.size)
}

// mostGrouped is the largest number of steps in a group.
const mostGrouped = 8

// stepGroup is a group of consecutive steps and the shaders that run them. The zero value stands for no group.
type stepGroup struct {
	steps   []*ir.Node
	shaders []kernels.Shader
}

// findGroups returns the groups of steps, by the step that each begins with. Workgroups of a dispatch do not wait for
// each other, so groups with results that overlap other operands are left out.
func (x *executable) findGroups() map[int]stepGroup {
	out := map[int]stepGroup{}
	uses := x.program.Graph.UseCounts()
	for i := 0; i < len(x.program.Steps); {
		g := x.findGroup(i, uses)
		if g.steps != nil {
			out[i] = g
		}
		i += max(1, len(g.steps))
	}
	return out
}

// findGroup returns the group of steps that begins at step first. It has no steps if no group begins there.
func (x *executable) findGroup(first int, uses []int) stepGroup {
	if x.program.Loop(x.program.Steps[first].Node) != nil {
		return stepGroup{}
	}
	var nodes []*ir.Node
	for _, s := range x.program.Steps[first:min(first+mostGrouped, len(x.program.Steps))] {
		nodes = append(nodes, x.program.Graph.Nodes[s.Node])
	}
	g, ok := kernels.FindGroup(nodes, uses, x.limits)
	if !ok {
		return stepGroup{}
	}
	for _, s := range g.Shaders {
		if x.overlaps(&dispatch{shader: s, steps: nodes[:g.Steps]}) {
			return stepGroup{}
		}
	}
	return stepGroup{nodes[:g.Steps], g.Shaders}
}

// overlaps reports whether a result of a group's shader lies over another operand of it, so that one workgroup could
// overwrite what another one reads.
func (x *executable) overlaps(d *dispatch) bool {
	for i, b := range d.shader.Bindings {
		for _, other := range d.shader.Bindings[:i] {
			n, o := d.operand(b), d.operand(other)
			if n == nil || o == nil || n == o || b.Operand >= 0 && other.Operand >= 0 {
				continue
			}
			p, q := x.program.Places[n.ID], x.program.Places[o.ID]
			same := p.Space == q.Space && p.Offset == q.Offset && p.Size == q.Size
			if p.Overlaps(q) && !(same && (b.InPlace || other.InPlace)) {
				return true
			}
		}
	}
	return false
}

// planWeights finds the ranges of the weights section that steps read, and plans memory for them: one space for all
// ranges or, if the device can use the section in place, a space over each range.
func (x *executable) planWeights() {
	if !x.mapped || !x.gpu.atPage(x.section) {
		x.resident = merge(x.planPassing(x.weightsRead()), program.Align, 0)
		total := int64(0)
		for i := range x.resident {
			x.resident[i].at = total
			total += program.AlignUp(x.resident[i].to - x.resident[i].from)
		}
		s := x.gpu.planSpace(total)
		for i := range x.resident {
			x.resident[i].space = s
		}
		x.weights = []*space{s}
		return
	}
	x.passing.space = &space{}
	stay, pass := x.weightsRead()
	x.resident = merge(append(stay, pass...), x.gpu.limits.Page, inPlaceGap)
	for i := range x.resident {
		r := &x.resident[i]
		r.space = x.gpu.spaceOver(x.section[r.from:min(r.to, int64(len(x.section)))], r.to-r.from)
		x.weights = append(x.weights, r.space)
	}
}

// inPlaceGap is the largest number of unread bytes between two weights that one buffer covers together. Unread bytes
// take memory of the device, since it keeps whole buffers in memory, but thousands of buffers take time.
const inPlaceGap = 1 << 20

// merge sorts intervals, rounds their beginnings down to multiples of unit, a power of two, and merges neighbours that
// are at most gap bytes apart. The end of an interval counts as rounded up to a unit for that.
func merge(list []interval, unit, gap int64) (out []interval) {
	slices.SortFunc(list, func(a, b interval) int { return cmp.Compare(a.from, b.from) })
	for _, r := range list {
		r.from &^= unit - 1
		if k := len(out) - 1; k >= 0 && r.from <= (out[k].to+unit-1)&^(unit-1)+gap {
			out[k].to = max(out[k].to, r.to)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// locate returns the space that holds a place, and the offset in it. Empty weights are in none, so that any will do.
func (x *executable) locate(pl program.Place) (*space, int64) {
	switch {
	case x.root == nil && pl.Space == program.Weights && pl.Size == 0:
		return x.arena, 0
	case x.root == nil:
	case pl.Space == program.Arena:
		return x.root.arena, x.arenaAt + pl.Offset
	case pl.Space == program.IO:
		return x.root.arena, x.ioAt + pl.Offset
	default:
		return x.root.locate(pl)
	}
	switch pl.Space {
	case program.Arena:
		return x.arena, pl.Offset
	case program.IO:
		return x.io, pl.Offset
	case program.State:
		return cmp.Or(x.state, x.stateShape), pl.Offset
	}
	r, ok := holder(x.resident, pl.Offset)
	if !ok {
		r, _ = holder(x.passing.list, pl.Offset)
	}
	return r.space, r.at + pl.Offset - r.from
}

// holder returns the interval that has an offset of the weights section.
func holder(list []interval, offset int64) (r interval, ok bool) {
	i, found := slices.BinarySearchFunc(list, offset, func(r interval, off int64) int {
		return cmp.Compare(r.from, off)
	})
	if found {
		return list[i], true
	}
	if i == 0 || offset >= list[i-1].to {
		return r, false
	}
	return list[i-1], true
}

// bindings returns the views of the operands of a dispatch, and the pieces of buffers that they consist of.
func (x *executable) bindings(d *dispatch) (views []kernels.View, pieces []Piece, err error) {
	for i, b := range d.shader.Bindings {
		s, offset, bytes := x.operand(d, b, i)
		ps, v := x.gpu.view(s, offset, bytes, b.DType.Size())
		if b.Vec == 4 && v.Skip%4 != 0 {
			return nil, nil, fmt.Errorf("BUG: gpu: vectors at element %d of a binding of %v", v.Skip, d.node)
		}
		views, pieces = append(views, v), append(pieces, ps...)
	}
	return views, pieces, nil
}

// planTexts generates the WGSL of all dispatches in parallel. Hundreds of dispatches share a few texts, each of which
// is generated once.
func (x *executable) planTexts() error {
	type written struct {
		once sync.Once
		text string
		err  error
	}
	type key struct{ name, body, rest string } // everything that a text depends on
	var texts sync.Map                         // from key to *written
	var e errgroup.Group
	e.SetLimit(runtime.GOMAXPROCS(0))
	text := func(x *executable, d *dispatch) (err error) {
		defer caught(&err)
		views, pieces, err := x.bindings(d)
		if err != nil {
			return err
		}
		n := len(pieces) + 1
		if n > x.gpu.limits.Bindings {
			return diag.New(device.ErrUnsupported, d.node.OpName(), "step %d, %s: needs %d bindings; %s has %d",
				d.step+1, d.node.Label(), n, x.gpu.name, x.gpu.limits.Bindings)
		}
		s := d.shader
		found, _ := texts.LoadOrStore(
			key{s.Name, s.Body, fmt.Sprintf("%#v", []any{s.Bindings, s.Consts, s.Fields, views})}, &written{})
		w := found.(*written)
		w.once.Do(func() { w.text, w.err = s.Text(views) })
		if w.err != nil {
			return x.unprepared(d, w.err)
		}
		d.source = Source{s.Name, w.text, n}
		return nil
	}
	for _, y := range x.all() {
		for _, d := range y.each() {
			e.Go(func() error { return text(y, d) })
		}
	}
	return e.Wait()
}

// operand returns the place of binding i, b: its space, its offset, and its number of bytes for the largest sizes.
func (x *executable) operand(d *dispatch, b kernels.Binding, i int) (s *space, offset, bytes int64) {
	n := d.node
	if d.memory != nil {
		s, offset = d.memory[i].at()
		return s, offset, d.memory[i].bytes
	}
	switch b.Operand {
	case kernels.Scratch:
		k, _ := kernels.Find(n)
		return x.base().scratch, 0, k.Scratch(n, x.limitsOf(n))
	case kernels.Kept:
		return x.kept, x.keptAt[n.ID], x.limitsOf(n).KeptBytes(n)
	case kernels.RoundedOut:
		return x.roundedAt(n)
	case kernels.RoundedIn, kernels.RoundedIn + 1, kernels.RoundedIn + 2:
		return x.roundedAt(x.rounded.readers[operandOf{n.ID, b.Operand - kernels.RoundedIn}])
	case kernels.Status:
		return x.base().status, int64(d.status) * program.Align, 4
	}
	pl := x.program.Places[d.operand(b).ID]
	s, offset = x.locate(pl)
	return s, offset, pl.Size
}

// operand returns the node whose value is bound, or nil if the binding is not a value, such as scratch memory.
func (d *dispatch) operand(b kernels.Binding) *ir.Node {
	n := d.node
	if d.steps != nil {
		n = d.steps[b.Of]
	}
	if b.Operand >= 0 {
		return n.In[b.Operand]
	}
	results := n.Values()
	if i := slices.IndexFunc(
		results, func(r *ir.Node) bool { _, k := r.Maker(); return kernels.Result(k) == b.Operand }); i >= 0 {
		return results[i]
	}
	return nil
}
