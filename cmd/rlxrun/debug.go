package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/npy"
)

// CodeCheck is reported by --check.
var CodeCheck = code.Check

// debugFlags are what a user may ask of a run beyond its result.
type debugFlags struct {
	profile, checkNaN, check bool
	trace                    string   // file
	dumps                    cli.List // GLOB=DIR
}

func (d *debugFlags) declare(fs *cli.FlagSet) {
	fs.Group("Looking inside")
	fs.BoolVar(&d.profile, "profile", false, "time per kind of op, with GFLOP/s and GB/s")
	fs.StringVar(&d.trace, "trace", "", "`FILE` write a trace of load and steps, for ui.perfetto.dev or chrome://tracing")
	fs.BoolVar(&d.checkNaN, "check-nan", false, "stop at the first step whose result holds a NaN, and name it")
	fs.BoolVar(&d.check, "check", false, "compare each step with the reference evaluation of its op (very slow)")
	fs.ListVarP(&d.dumps, "dump-tensors", "", "`GLOB=DIR` write the results of steps whose name or op matches to DIR as METHOD.STEP.NAME.npy (repeatable)")
}

// any reports whether a run is worth making without an output.
func (d *debugFlags) any() bool {
	return d.profile || d.checkNaN || d.check || d.trace != "" || len(d.dumps.Values) > 0
}

// prepare checks the values and makes the directories of --dump-tensors.
func (d *debugFlags) prepare() error {
	if d.trace == "-" {
		return cli.Usagef("--trace -", "a trace goes to a file").WithHint("for example --trace trace.json")
	}
	for _, v := range d.dumps.Values {
		glob, dir, ok := strings.Cut(v, "=")
		if _, err := path.Match(glob, ""); !ok || dir == "" || err != nil {
			return cli.Usagef("--dump-tensors "+v, "is not GLOB=DIR with a pattern such as 'encoder.*'")
		}
		if err := os.Mkdir(dir, 0o777); err != nil && !os.IsExist(err) {
			return cli.Usagef("--dump-tensors "+v, "directory cannot be made: %w", unpath(err))
		}
		if st, err := os.Stat(dir); err != nil || !st.IsDir() {
			return cli.Usagef("--dump-tensors "+v, "%s is there and is not a directory", dir)
		}
	}
	return nil
}

// matches tells whether a glob of --dump-tensors means a value: by its name, such as image_encoder.blocks.3.mlp, or by the
// op that makes it, such as softmax.
func matches(glob string, n *ir.Node) bool {
	by, _ := n.Maker()
	byName, _ := path.Match(glob, n.Label())
	byOp, _ := path.Match(glob, by.Op.Name)
	return byName || byOp
}

// checkGlobs refuses a pattern of --dump-tensors that means no step of the methods on any target: an empty directory after
// a long run helps nobody.
func (d *debugFlags) checkGlobs(m *model, methods []string) error {
	for _, v := range d.dumps.Values {
		glob, _, _ := strings.Cut(v, "=")
		found := false
		var names, ops []string
		for _, method := range methods {
			for _, p := range m.targets(method) {
				for _, s := range p.Steps {
					n := p.Graph.Nodes[s.Node]
					for _, v := range n.Values() {
						found = found || matches(glob, v)
						if v.Name != "" && !slices.Contains(names, v.Name) {
							names = append(names, v.Name)
						}
					}
					if !slices.Contains(ops, n.Op.Name) {
						ops = append(ops, n.Op.Name)
					}
				}
			}
		}
		if !found {
			if len(names) > 3 {
				names = append(names[:3:3], "and so on")
			}
			slices.Sort(ops)
			return cli.Usagef("--dump-tensors "+v, "matches no step of %s; names are %s; ops are %s", strings.Join(methods, " and "),
				strings.Join(names, ", "), strings.Join(ops, ", "))
		}
	}
	return nil
}

// watcher is the debug side of one run.
type watcher struct {
	ctx     context.Context // of the run, which calls observe
	l       *loaded
	bound   *program.Bound
	options device.RunOptions
	dirs    map[int][]string      // of --dump-tensors, by node
	stepOf  map[int]int           // by node
	values  map[int]*tensor.Array // for --check: results so far
	uses    map[int]int           // and how many steps still read them
}

// watch prepares the debug side of a run.
func (d *debugFlags) watch(ctx context.Context, l *loaded, bound *program.Bound, in map[string]tensor.Tensor) (*watcher, error) {
	w := &watcher{ctx: ctx, l: l, bound: bound, dirs: map[int][]string{}, stepOf: map[int]int{}}
	w.options = device.RunOptions{Profile: d.profile || d.trace != "", CheckNaN: d.checkNaN}
	if len(d.dumps.Values) == 0 && !d.check {
		return w, nil
	}
	for i, s := range bound.Steps {
		for _, n := range s.Node.Values() {
			w.stepOf[n.ID] = i
			for _, v := range d.dumps.Values {
				glob, dir, _ := strings.Cut(v, "=")
				if matches(glob, n) {
					w.dirs[n.ID] = append(w.dirs[n.ID], dir)
				}
			}
			if d.check || len(w.dirs[n.ID]) > 0 {
				w.options.Dump = append(w.options.Dump, n.ID)
			}
		}
	}
	if d.check {
		w.values, w.uses = map[int]*tensor.Array{}, map[int]int{}
		for _, s := range bound.Steps {
			for _, x := range s.Node.In {
				src, _ := sourceOf(x)
				w.uses[src.ID]++
			}
		}
		for _, n := range l.prog.Graph.Inputs() {
			w.values[n.ID] = in[n.Name].Array()
		}
	}
	w.options.Observe = w.observe
	return w, nil
}

// memory estimates what --check and --dump-tensors hold of a program's values at their peak, at the upper bounds of its
// sizes. A value in transit takes its size twice, because it arrives in pieces; one that is compared is held as 64-bit
// numbers, beside the reference's. Garbage beside them is taken to be as much as the operands and results of a step.
func (d *debugFlags) memory(p *program.Program) (peak int64) {
	if len(d.dumps.Values) == 0 && !d.check {
		return 0
	}
	bytes := func(n *ir.Node) int64 { return p.Graph.Syms.MaxBytes(n.Type) }
	wide := func(n *ir.Node) int64 { return bytes(n) / int64(n.Type.DType.Size()) * 8 }
	live, uses := int64(0), map[int]int{}
	if d.check {
		for _, n := range p.Graph.Inputs() {
			live += wide(n)
		}
		for _, s := range p.Steps {
			for _, x := range p.Graph.Nodes[s.Node].In {
				src, _ := sourceOf(x)
				uses[src.ID]++
			}
		}
	}
	for _, s := range p.Steps {
		node := p.Graph.Nodes[s.Node]
		var now int64
		for _, n := range node.Values() {
			now = max(now, 2*bytes(n)+wide(n)) // bf16 is widened for a file
		}
		if d.check {
			_, own := node.EvalMemory()
			now += own
			for _, n := range node.Values() {
				live += wide(n)
				now += 2 * wide(n)
			}
			for _, x := range node.In {
				src, _ := sourceOf(x)
				if now += wide(x); src.Op.Name == "param" {
					now += bytes(x) + wide(x)
				}
			}
		}
		peak = max(peak, live+now)
		if d.check {
			for _, x := range node.In {
				src, _ := sourceOf(x)
				if uses[src.ID]--; uses[src.ID] == 0 && src.Op.Name != "param" {
					live -= wide(src)
				}
			}
		}
	}
	return peak
}

// observe gets the value of a node as the backend stored it.
func (w *watcher) observe(node int, shape []int, data []byte) error {
	n := w.l.prog.Graph.Nodes[node]
	t := tensor.Tensor{DType: n.Type.DType, Shape: slices.Clone(shape), Data: data}
	for _, dir := range w.dirs[node] {
		name := fmt.Sprintf("%s.%05d.%s.npy", cli.FileName(w.l.prog.Method), w.stepOf[node], cli.FileName(n.Label()))
		if err := npy.WriteFile(w.ctx, filepath.Join(dir, name), writable(t)); err != nil {
			return err
		}
	}
	if w.values == nil {
		return nil
	}
	w.values[node] = t.Array()
	s := w.bound.Steps[w.stepOf[node]]
	for _, o := range s.Outs {
		if w.values[o.Node] == nil { // another result of the step is still to come
			return nil
		}
	}
	return w.compare(s)
}

// compare evaluates the step's op on the values that the backend had, and compares its results.
func (w *watcher) compare(s program.BoundStep) error {
	in := make([]*tensor.Array, len(s.In))
	for i, o := range s.In {
		var err error
		if in[i], err = w.value(o); err != nil {
			return err
		}
	}
	want := make([]*tensor.Array, len(s.Outs))
	for i, o := range s.Outs {
		want[i] = tensor.NewArray(o.DType, o.Shape...)
	}
	if err := s.Node.Op.Eval(s.Node.Attrs, in, want...); err != nil {
		return diag.New(CodeCheck, w.at(s.Node.ID), "the reference refuses its operands: %w", err)
	}
	for i, tol := range s.Node.Op.Tol(s.Node.Attrs, staticTypes(s.In), staticTypes(s.Outs)...) {
		node := s.Outs[i].Node
		if err := interp.Compare(w.values[node], want[i], tol); err != nil {
			return diag.New(CodeCheck, w.at(node), "%w", err)
		}
		if w.uses[node] == 0 {
			delete(w.values, node)
		}
	}
	for _, x := range s.Node.In {
		src, _ := sourceOf(x)
		if w.uses[src.ID]--; w.uses[src.ID] == 0 {
			delete(w.values, src.ID)
		}
	}
	return nil
}

// sourceOf is the node that made the value which n shows, and where n begins in it, in bytes.
func sourceOf(n *ir.Node) (src *ir.Node, offset int64) {
	for {
		off, view := n.View()
		if !view {
			return n, offset
		}
		offset, n = offset+off, n.In[0]
	}
}

// value is an operand: a weight, a result, an input, or a view of one of these.
func (w *watcher) value(o program.Operand) (*tensor.Array, error) {
	src, off := sourceOf(w.l.prog.Graph.Nodes[o.Node])
	if src.Op.Name == "param" {
		b, err := w.l.h.model.weight(o.Offset, o.Bytes)
		if err != nil {
			return nil, err
		}
		return tensor.Tensor{DType: o.DType, Shape: o.Shape, Data: b}.Array(), nil
	}
	v, ok := w.values[src.ID]
	if !ok {
		panic("BUG: --check has no value of " + src.Label())
	}
	first, n := int(off)/o.DType.Size(), tensor.Numel(o.Shape)
	a := &tensor.Array{DType: o.DType, Shape: o.Shape}
	if v.F != nil {
		a.F = v.F[first : first+n]
	} else {
		a.I = v.I[first : first+n]
	}
	return a, nil
}

// at names a node for messages: "encode step 12 (softmax %31)".
func (w *watcher) at(node int) string {
	n := w.l.prog.Graph.Nodes[node]
	by, _ := n.Maker()
	for i, s := range w.l.prog.Steps {
		if s.Node == by.ID {
			return fmt.Sprintf("%s step %d of %d (%s %s)", w.l.prog.Method, i+1, len(w.l.prog.Steps), by.Op.Name, n.Label())
		}
	}
	return n.Label()
}

// verdict looks at what the run reported.
func (w *watcher) verdict(st device.Stats) error {
	if !w.options.CheckNaN || st.FirstNaN < 0 {
		return nil
	}
	if st.FirstNaN >= len(w.l.prog.Graph.Nodes) {
		return diag.New(device.ErrLost, "backend "+w.l.h.backend, "reported a NaN in node %d of %d", st.FirstNaN, len(w.l.prog.Graph.Nodes))
	}
	return diag.New(device.ErrNaN, w.at(st.FirstNaN), "its result holds a NaN")
}

// writable is t in a form that .npy has: bf16 is widened to f32, which is exact.
func writable(t tensor.Tensor) tensor.Tensor {
	if t.DType != dtype.BF16 {
		return t
	}
	a := t.Array()
	a.DType = dtype.F32
	return a.Tensor()
}
