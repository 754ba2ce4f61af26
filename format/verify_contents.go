package format

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
)

// checkContents runs checks 17 to 38 on decoded sections and converts them to programs. weights is the size of the
// weights section in bytes.
func checkContents(c *contents, weights int64, p Policy) (*Directory, []*program.Program, []*program.Split, error) {
	if err := checkMeta(c.meta); err != nil {
		return nil, nil, nil, err
	}
	dir, err := checkTensors(c.tensors, weights)
	if err != nil {
		return nil, nil, nil, err
	}
	whole, err := checkDivision(c)
	if err != nil {
		return nil, nil, nil, err
	}
	if len(c.plans) != len(c.graphs) || len(c.scheds) != len(c.graphs) {
		return nil, nil, nil, fail(30, KindPlan.String(), -1, "%d graphs have %d plans and %d schedules", len(c.graphs),
			len(c.plans), len(c.scheds))
	}
	if err := checkDims(c.graphs); err != nil {
		return nil, nil, nil, err
	}
	var programs []*program.Program
	seen := map[[2]string]bool{}
	for i := range c.graphs {
		g := &c.graphs[i]
		key := [2]string{g.method, g.target}
		if i < whole && seen[key] {
			return nil, nil, nil, fail(17, KindGraph.String(), g.at, "two programs are for method %q and target %q",
				g.method, g.target)
		}
		seen[key] = true
		prog, err := checkProgram(g, &c.plans[i], &c.scheds[i], dir, p)
		if err != nil {
			return nil, nil, nil, err
		}
		programs = append(programs, prog)
	}
	splits, err := checkSplits(c, programs, whole)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := checkSignature(c, programs[:whole], dir); err != nil {
		return nil, nil, nil, err
	}
	if _, _, err := program.JoinStates(programs...); err != nil {
		return nil, nil, nil, fail(checkState, KindPlan.String(), -1, "%w", err)
	}
	if err := checkMutable(c.mutable, dir, programs); err != nil {
		return nil, nil, nil, err
	}
	return dir, programs[:whole:whole], splits, checkMemory(programs, weights, p)
}

// checkMutable is the part of checks 15 and 23 for MUTW. The section lists weights in ascending order, each a param of
// a program and not an attachment.
func checkMutable(list []int64, dir *Directory, programs []*program.Program) error {
	if len(list) == 0 {
		return nil
	}
	where, read := KindChange.String(), map[string]bool{}
	for _, p := range programs {
		for _, n := range p.Graph.Params() {
			read[n.Name] = true
		}
	}
	for k, i := range list {
		switch {
		case k > 0 && i <= list[k-1]:
			return fail(checkSchema, where, -1, "weight %d comes after weight %d; want them in ascending order", i,
				list[k-1])
		case i >= int64(len(dir.tensors)):
			return fail(23, where, -1, "there is no weight %d; the artifact has %d", i, len(dir.tensors))
		case !read[dir.tensors[i].Name]:
			return fail(23, where, -1, "weight %d, %s, is a parameter of no program", i, dir.tensors[i].Name)
		}
		dir.tensors[i].Mutable = true
	}
	return nil
}

// checkDims is the part of check 18 that bounds the work on symbols. If a dim does not grow with each of its symbols,
// finding its bounds needs a search.
func checkDims(graphs []rawGraph) error {
	n := 0
	count := func(syms ir.Syms, nodes []rawNode) error {
		for _, x := range nodes {
			for _, d := range x.typ.shape {
				if !syms.Growing(d) {
					n++
				}
			}
			if n > MaxDims {
				return fail(18, KindGraph.String(), x.at, "more than %d dims fall when a symbol grows, such as 8-N",
					MaxDims)
			}
		}
		return nil
	}
	for i := range graphs {
		for _, b := range graphs[i].bodies {
			if err := count(b.syms, b.nodes); err != nil {
				return err
			}
		}
		if err := count(graphs[i].syms, graphs[i].nodes); err != nil {
			return err
		}
	}
	return nil
}

// checkProgram runs those of checks 17 to 38 that concern one program. If dir is nil, the weights are not available and
// params are not checked.
func checkProgram(g *rawGraph, pl *rawPlan, s *rawSched, dir *Directory, p Policy) (*program.Program, error) {
	graph, bodies, err := checkGraph(g, dir)
	if err != nil {
		return nil, err
	}
	nested, err := checkNested(g.target, bodies, pl, s, dir)
	if err != nil {
		return nil, err
	}
	prog := &program.Program{Method: g.method, Target: g.target, Graph: graph, Rewritten: g.rewritten,
		Reference: g.reference}
	if err := checkPlan(prog, pl, nested, dir); err != nil {
		return nil, err
	}
	if err := checkSched(prog, s); err != nil {
		return nil, err
	}
	return prog, checkWork(prog, g, p)
}

// checkText is check 17 for text that is only displayed: control characters must not reach a terminal.
func checkText(where, what, s string) error {
	if i := strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(s) {
		return fail(17, where, -1, "%s %.80q has characters that do not print", what, s)
	}
	return nil
}

// names runs check 17 on one kind of names.
type names map[string]bool

func (n names) add(where string, at int64, what, name string) error {
	if err := ir.CheckName(name); err != nil {
		return fail(17, where, at, "%s: %w", what, err)
	}
	if n[name] {
		return fail(17, where, at, "%s %q is listed twice", what, name)
	}
	n[name] = true
	return nil
}

// checkMeta runs check 17 on META, and check 22 on the version of the op set.
func checkMeta(m *Meta) error {
	where := KindMeta.String()
	texts := []string{m.Architecture, m.Model, m.Producer.Name, m.Producer.Version}
	texts = append(texts, m.Precisions...)
	for _, s := range m.Sources {
		texts = append(texts, s.Name)
	}
	for i, p := range m.Pairs {
		texts = append(texts, p.Key, p.Value)
		if i > 0 && p.Key <= m.Pairs[i-1].Key {
			return fail(17, where, -1, "pair %.80q does not come after %.80q", p.Key, m.Pairs[i-1].Key)
		}
	}
	for _, s := range texts {
		if err := checkText(where, "text", s); err != nil {
			return err
		}
	}
	methods := names{}
	for _, x := range m.Methods {
		if err := program.CheckMethod(x.Name); err != nil {
			return fail(17, where, -1, "%w", err)
		}
		if err := methods.add(where, -1, "method", x.Name); err != nil {
			return err
		}
	}
	if m.Opset < 1 || m.Opset > Opset {
		return fail(22, where, -1, "opset %d; this version knows 1 to %d", m.Opset, Opset)
	}
	return nil
}

// checkTensors runs checks 17 to 21 on the weight directory. checkPadding checks the padding between weights.
func checkTensors(raw []rawTensor, size int64) (*Directory, error) {
	where := KindTensor.String()
	d := &Directory{byName: make(map[string]int, len(raw))}
	seen := names{}
	for i := range raw {
		t := &raw[i]
		if err := seen.add(where, t.at, "weight", t.name); err != nil {
			return nil, err
		}
		typ, err := checkType(&t.typ, nil, where, t.at)
		if err != nil {
			return nil, err
		}
		bytes, err := tensorBytes(typ)
		if err != nil {
			return nil, fail(18, where, t.at, "weight %q: %w", t.name, err)
		}
		switch want := nextOffset(d.size, bytes); {
		case t.size != bytes:
			return nil, fail(20, where, t.at, "weight %q has %d bytes; %v takes %d", t.name, t.size, typ, bytes)
		case t.offset != want:
			return nil, fail(20, where, t.at, "weight %q is at %d; the one before it ends at %d, so it must be at %d",
				t.name, t.offset, d.size, want)
		case !within(t.offset, t.size, size):
			return nil, fail(20, where, t.at, "weight %q ends after the %d bytes of the weights", t.name, size)
		case t.quant != "":
			return nil, fail(21, where, t.at, "weight %q has quantization %.40q; this version knows none", t.name,
				t.quant)
		}
		d.add(Tensor{Name: t.name, Type: typ, Offset: t.offset, Size: t.size})
	}
	if d.size != size {
		return nil, fail(20, where, -1, "the weights end at %d; the section has %d bytes", d.size, size)
	}
	return d, nil
}

// checkPadding runs the rest of check 20: the bytes between weights are zero.
func (v *Verified) checkPadding() error {
	base, _ := v.WeightsSection()
	// One read covers many small weights, because a gap is shorter than LargeAlign.
	window, from, to := make([]byte, LargeAlign), int64(0), int64(0)
	end := int64(0)
	for i := range v.dir.tensors {
		t := &v.dir.tensors[i]
		if gap := t.Offset - end; gap > 0 {
			if t.Offset > to {
				from, to = end, min(end+int64(len(window)), v.dir.size)
				if err := readAt(v.c.r, window[:to-from], base+from); err != nil {
					return fail(20, KindWeight.String(), from, "cannot be read: %w", err)
				}
			}
			if !allZero(window[end-from : t.Offset-from]) {
				return fail(20, KindWeight.String(), end, "the padding before weight %q is not zero", t.Name)
			}
		}
		end = t.Offset + t.Size
	}
	return nil
}

// checkType runs checks 18, 19 and 28 on a type.
func checkType(r *rawType, syms ir.Syms, where string, at int64) (ir.Type, error) {
	d, ok := r.dtype.parse()
	if !ok {
		if slices.Contains(unsupportedDTypes, r.dtype) {
			return ir.Type{},
				fail(
					19, where, at,
					"element type %s is smaller than a byte, or a block of a kind that this version does not know",
					r.dtype)
		}
		return ir.Type{}, fail(18, where, at, "element type %.40q is unknown; known are %v", string(r.dtype),
			dtype.Known())
	}
	t := ir.Type{DType: d, Shape: r.shape}
	for _, x := range r.shape {
		for _, name := range x.Symbols() {
			if _, ok := syms.Find(name); !ok {
				return ir.Type{}, fail(28, where, at, "dim %v of %v: symbol %s is not declared", x, t, name)
			}
		}
	}
	if err := syms.CheckType(t); err != nil {
		return ir.Type{}, fail(18, where, at, "%w", err)
	}
	if n := syms.MaxBytes(t); n > MaxTensorBytes {
		return ir.Type{}, fail(18, where, at, "%v has %d bytes; at most %d", t, n, int64(MaxTensorBytes))
	}
	return t, nil
}
