package devicetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/target"
	"github.com/rlx-go/rlx/core/tensor"
)

// syms returns the symbols of the recipe's programs.
func (r *recipe) syms() ir.Syms {
	if r.largest == 0 {
		return nil
	}
	return ir.Syms{{Name: "N", Min: 1, Max: r.largest}}
}

// at returns values of the symbols in which N is n, or the largest value if that is smaller.
func (r *recipe) at(n int64) map[string]int64 {
	if r.largest == 0 {
		return nil
	}
	return map[string]int64{"N": min(n, r.largest)}
}

// weight reports whether operand k is a param.
func (r *recipe) weight(k int) bool { return r.weights != nil && r.weights[k] }

// nodes adds an input or a param for each operand.
func (r *recipe) nodes(g *ir.Graph) []*ir.Node {
	in := make([]*ir.Node, len(r.types))
	for k, t := range r.types {
		if !t.Present() {
			continue
		}
		if r.weight(k) {
			in[k] = op.Param(g, operandName(k), t)
		} else {
			in[k] = op.Input(g, operandName(k), t)
		}
	}
	return in
}

// step adds the op of step i and returns its results.
func (r *recipe) step(g *ir.Graph, i int, in []*ir.Node) []*ir.Node {
	s := r.subs[i%len(r.subs)]
	if s.def.Tuple {
		return g.AddResults(len(s.outs), s.def, s.Attrs, in...)
	}
	return []*ir.Node{g.AddDeclared(s.def, s.Attrs, r.out, in...)}
}

// graph returns a graph of n steps.
func (r *recipe) graph(n int) *ir.Graph {
	g := ir.NewGraph("plain", r.syms()...)
	g.Build(func() { // the graph keeps the error
		in := r.nodes(g)
		for i := range n {
			results := r.step(g, i, slices.Clone(in)) // the node keeps the slice
			results[0].Named(fmt.Sprintf("%s%d", r.subs[i%len(r.subs)].def.Name, i))
			if r.chained {
				in[0] = results[0]
				continue
			}
			for k, x := range results {
				g.Return(fmt.Sprintf("y%d_%d", i, k), x)
			}
		}
		if r.chained {
			g.Return("y", in[0])
		}
	})
	return g
}

// subject returns the subject of step i with the sizes of syms.
func (r *recipe) subject(i int, syms map[string]int64) (subject, error) {
	s := r.subs[i%len(r.subs)]
	c := s.Case
	static := func(t ir.Type) ir.Type {
		if !t.Present() {
			return t
		}
		return ir.TypeOf(t.DType, sizesOf(t, syms)...)
	}
	c.In = make([]ir.Type, len(r.types))
	for k, t := range r.types {
		c.In[k] = static(t)
	}
	if s.def.Declared {
		c.Out = static(r.out)
	}
	return newSubject(s.def, c)
}

func sizesOf(t ir.Type, syms map[string]int64) (out []int64) {
	for _, n := range t.Shape.Eval(syms) {
		out = append(out, int64(n))
	}
	return out
}

// operands returns values for the operands, which the op's definition accepts. The params do not depend on syms.
func (r *recipe) operands(syms map[string]int64) ([]*tensor.Array, error) {
	s, err := r.subject(0, syms)
	if err != nil {
		return nil, err
	}
	in, _ := s.accepted(1)
	if slices.Contains(r.weights, true) {
		whole, _ := r.subs[0].accepted(1)
		for k := range in {
			if r.weight(k) {
				in[k] = whole[k]
			}
		}
	}
	_, err = s.eval(in)
	return in, err
}

// results returns the results of n steps by the names of the outputs, and of the last step. If the steps are not
// chained, all have the same.
func (r *recipe) results(n int, syms map[string]int64, in []*tensor.Array) (out []*tensor.Array, err error) {
	in = slices.Clone(in)
	if !r.chained {
		n = 1
	}
	for i := range n {
		s, err := r.subject(i, syms)
		if err != nil {
			return nil, err
		}
		if out, err = s.eval(in); err != nil {
			return nil, err
		}
		if r.chained {
			in[0] = out[0].Tensor().Array()
		}
	}
	return out, nil
}

// claimed reports whether a target takes the programs of the recipe, and the definitions of the ops accept its values.
func (r *recipe) claimed(to *target.Description) bool {
	if r.largest > 0 {
		if !slices.ContainsFunc(r.types, func(t ir.Type) bool { return !t.Shape.IsStatic() }) {
			return false // only the declared result would depend on N
		}
		for k, t := range r.types {
			if r.weight(k) && !t.Shape.IsStatic() {
				return false
			}
		}
	}
	g := r.graph(2)
	if how, _ := takes(to, g); how == target.No || len(g.Requires()) > 0 {
		return false
	}
	for _, n := range g.Nodes {
		if r.chained && program.IsStep(n) && !n.Type.Equal(r.types[0]) {
			return false // such as a transpose of [N,3]
		}
	}
	for _, n := range []int64{1, 2, r.largest} {
		in, err := r.operands(r.at(n))
		if err != nil {
			return false
		}
		if _, err := r.results(4, r.at(n), in); err != nil {
			return false
		}
	}
	p, err := r.program(2)
	return err == nil && len(p.p.Steps) == 2 && p.p.IOSize <= MaxIO>>9 && (device.Info{Target: to}).Lacks(p.p) == ""
}

// plain is a program of a recipe.
type plain struct {
	*recipe
	steps  int
	p      *program.Program
	params values
}

// program makes a program of n steps.
func (r *recipe) program(n int) (*plain, error) {
	x := &plain{recipe: r, steps: n, params: values{}}
	in, err := r.operands(r.at(r.largest))
	if err != nil {
		return nil, err
	}
	for k := range in {
		if r.weight(k) {
			x.params[operandName(k)] = in[k]
		}
	}
	x.p, err = build(r.graph(n), x.params)
	return x, err
}

// must is program for a recipe that is claimed.
func (r *recipe) must(n int) *plain {
	x, err := r.program(n)
	if err != nil {
		panic("BUG: devicetest: " + err.Error())
	}
	return x
}

// inputs returns inputs for a run with N = n.
func (x *plain) inputs(n int64) values {
	in, err := x.operands(x.at(n))
	if err != nil {
		panic("BUG: devicetest: " + err.Error())
	}
	return named(in)
}

func named(in []*tensor.Array) values {
	v := values{}
	for k, a := range in {
		if a != nil {
			v[operandName(k)] = a
		}
	}
	return v
}

// right returns an error unless got are the outputs that the ops' definitions give for inputs, with N = n.
func (x *plain) right(n int64, inputs values, got map[string]tensor.Tensor) error {
	in := make([]*tensor.Array, len(x.types))
	for k := range in {
		if in[k] = inputs[operandName(k)]; in[k] == nil {
			in[k] = x.params[operandName(k)]
		}
	}
	want, err := x.results(x.steps, x.at(n), in)
	if err != nil {
		panic("BUG: devicetest: " + err.Error())
	}
	if x.chained {
		return compare(got["y"].Array(), want[0], ir.Tolerance{})
	}
	s := x.subs[0]
	for i := range x.steps {
		made := make([]*tensor.Array, len(want))
		for k := range made {
			made[k] = got[fmt.Sprintf("y%d_%d", i, k)].Array()
		}
		if err := near(whole, s.def, s.Attrs, in, made, want); err != nil {
			return fmt.Errorf("step %d, %v: %w", i, s, err)
		}
	}
	return nil
}

// worksAt runs the program with N = n and checks its outputs and statistics.
func (x *plain) worksAt(r *rig, n int64) error {
	in := x.inputs(n)
	got, stats, err := r.run(background, in, device.Run{Syms: x.at(n)})
	if err != nil {
		return err
	}
	if stats.FirstNaN != -1 || len(stats.Steps) != 0 || stats.Total <= 0 || stats.PeakRSS < 0 {
		return fmt.Errorf("stats of a plain run are %+v; want a total time, no steps and FirstNaN -1", stats)
	}
	return x.right(n, in, got)
}

// works is worksAt with a small size.
func (x *plain) works(r *rig) error { return x.worksAt(r, 2) }

// equalSizes returns a program of one step whose symbols N and M must be equal, because a reshape requires it. ok is
// false if the target takes no such program.
func (r *recipe) equalSizes(to *target.Description) (p *program.Program, params values, ok bool) {
	if r.largest < 2 {
		return nil, nil, false
	}
	g := ir.NewGraph("equal", append(r.syms(), ir.Sym{Name: "M", Min: 1, Max: r.largest})...)
	err := g.Build(func() {
		in := r.nodes(g)
		for k, x := range in {
			if x == nil || x.Type.Shape.IsStatic() {
				continue
			}
			other := slices.Clone(x.Type.Shape)
			for a := range other {
				if !other[a].IsStatic() {
					other[a] = ir.Named("M")
				}
			}
			in[k] = op.Reshape(x, other)
		}
		out := r.out
		out.Shape = slices.Clone(out.Shape)
		for a := range out.Shape {
			if !out.Shape[a].IsStatic() {
				out.Shape[a] = ir.Named("M")
			}
		}
		s := *r
		s.out = out
		for k, x := range s.step(g, 0, in) {
			g.Return(fmt.Sprintf("y0_%d", k), x)
		}
	})
	if err != nil || len(g.Requires()) == 0 {
		return nil, nil, false
	}
	x := r.must(1)
	if p, err = build(g, x.params); err != nil || (device.Info{Target: to}).Lacks(p) != "" {
		return nil, nil, false
	}
	return p, x.params, true
}

// passesNaN reports whether a NaN in the first operand makes one in the result.
func (r *recipe) passesNaN() bool {
	if len(r.types) == 0 || r.weight(0) || !r.types[0].DType.IsFloat() {
		return false
	}
	in, err := r.operands(r.at(2))
	if err != nil {
		return false
	}
	s, _ := r.subject(0, r.at(2))
	out, err := s.eval(in)
	if err != nil || len(out[0].Floats) == 0 || slices.ContainsFunc(out[0].Floats, math.IsNaN) {
		return false
	}
	in[0] = allNaN(in[0])
	out, err = s.eval(in)
	return err == nil && slices.ContainsFunc(out[0].Floats, math.IsNaN)
}

// allNaN returns an array like x whose elements are NaN.
func allNaN(x *tensor.Array) *tensor.Array {
	n := tensor.NewArray(x.DType, x.Shape...)
	for i := range n.Floats {
		n.Floats[i] = math.NaN()
	}
	return n
}

// Specimen is a small program that a backend claims to run, with weights and inputs, for checks of the protocol.
type Specimen struct {
	Program *program.Program
	Weights []byte
	Inputs  [][]byte // of a run with the largest sizes, in the order of the program's inputs
	// Equal is a program, with the same weights, that requires its two symbols N and M to be equal. It is nil if the
	// backend claims no such program.
	Equal *program.Program
	// Param is a program with params, whose weights are ParamWeights. It is nil if the backend claims no such program.
	Param        *program.Program
	ParamWeights []byte
}

// Claimed returns a specimen of a program that the backend claims to run. If there is no such program, why is the
// reason.
func Claimed(info device.Info) (s *Specimen, why string) {
	r, why := claimedRecipe(info.Target, anyRecipe)
	if r == nil {
		return nil, why
	}
	if len(info.Devices) == 0 {
		return nil, info.Name + " has no device"
	}
	x := r.must(4)
	s = &Specimen{Program: x.p}
	in := x.inputs(x.largest)
	for _, n := range x.p.Graph.Inputs() {
		s.Inputs = append(s.Inputs, in[n.Name].Tensor().Data)
	}
	s.Weights = x.params.weights()
	s.Program.Target = info.Name
	if p, _, ok := r.equalSizes(info.Target); ok {
		p.Target, s.Equal = info.Name, p
	}
	if r, _ := claimedRecipe(info.Target, withParams); r != nil {
		x := r.must(1)
		x.p.Target = info.Name
		s.Param, s.ParamWeights = x.p, x.params.weights()
	}
	return s, ""
}

// weights returns params as they lie in the weights space.
func (v values) weights() []byte {
	at, size := layout(v.names(), v)
	b := make([]byte, size)
	for name, x := range v {
		copy(b[at[name]:], x.Tensor().Data)
	}
	return b
}

// String names the ops of the recipe.
func (r *recipe) String() string {
	var names []string
	for _, s := range r.subs {
		names = append(names, s.def.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "nothing")
}
