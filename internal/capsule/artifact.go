package capsule

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/release"
)

// chunk is the number of bytes, or of elements, of a weight that are copied or made at a time.
const chunk = 1 << 20

// WriteArtifact writes an artifact with the method of the capsule and the weights that it uses. The weights come from
// the capsule. If it has none, they come from from, the artifact from which the capsule was made. If from is nil, they
// are made up: floats from -1 to 1, integers 0 and 1.
func (f *File) WriteArtifact(ctx context.Context, path string, from *format.Verified) error {
	if from != nil && !f.Weights && from.Identity() != f.From {
		return f.bad("is of the artifact %s; the one given is %s", f.From, from.Identity())
	}
	var weights []format.Weight
	for i, n := range f.params() {
		w := format.Weight{Name: n.Name, Type: n.Type}
		switch {
		case f.Weights:
			w.Write = func(to io.Writer) error { return f.copyPart(to, "weight."+n.Name) }
		case from != nil:
			t, ok := from.Weights().Find(n.Name)
			if !ok || !t.Type.Equal(n.Type) {
				return f.bad("uses a weight %s of type %v, which the artifact lacks", n.Name, n.Type)
			}
			base, _ := from.WeightsSection()
			w.Write = func(to io.Writer) error {
				_, err := io.Copy(to, io.NewSectionReader(from.File(), base+t.Offset, t.Size))
				return err
			}
		default:
			w.Write = func(to io.Writer) error { return madeUp(to, n.Type, uint64(i)) }
		}
		weights = append(weights, w)
	}
	dir, err := format.Layout(weights)
	if err != nil {
		return err
	}
	for _, x := range f.Split.Segments {
		place(x.Program, dir)
	}
	sig, err := f.signature()
	if err != nil {
		return err
	}
	a := format.Artifact{Meta: format.Meta{Model: f.Model, Precisions: []string{f.Precision},
		Producer: format.Producer{Name: "rlxrun", Version: release.Version}}}
	method := format.Method{Name: f.Method, Syms: sig.Syms}
	for i, in := range f.Inputs {
		method.Inputs = append(method.Inputs, format.Value{Name: in.Name, Type: sig.Inputs[i]})
	}
	for i, o := range f.Split.Outputs {
		name := f.Split.Segments[o.Segment].Graph.Outputs[o.Index].Name
		method.Outputs = append(method.Outputs, format.Value{Name: name, Type: sig.Outputs[i]})
	}
	a.Meta.Methods = []format.Method{method}
	if f.Split.InPieces() {
		a.Splits = []*program.Split{f.Split}
	} else {
		a.Programs = []*program.Program{f.Split.Segments[0].Program}
	}
	if _, err = format.Write(ctx, path, a, weights); err != nil {
		return fmt.Errorf("the artifact of the capsule cannot be written: %w", err)
	}
	return nil
}

// place moves the weights of a program to their offsets in another weights section, with their views.
func place(p *program.Program, dir *format.Directory) {
	for i, n := range p.Graph.Nodes {
		at := &p.Places[i]
		if at.Space != program.Weights || n.Op.Tuple {
			continue
		}
		if n.Op.Name == "param" {
			at.Offset, _ = dir.Offset(n.Name)
		} else if off, view := n.View(); view {
			at.Offset = p.Places[n.In[0].ID].Offset + off
		}
	}
}

// copyPart copies a part of the file.
func (f *File) copyPart(to io.Writer, name string) error {
	t := f.parts[name]
	_, err := io.Copy(to, io.NewSectionReader(f.r, t.Offset, t.Size))
	return err
}

// madeUp writes a weight with random elements.
func madeUp(to io.Writer, t ir.Type, seed uint64) error {
	r := ir.Range{Lo: -1, Hi: 1}
	if !t.DType.IsFloat() {
		r = ir.Range{Lo: 0, Hi: 1}
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	n, ok := t.Shape.Numel()
	if !ok {
		return fmt.Errorf("the size of %v is not known", t)
	}
	for rest := n.Const; rest > 0; {
		some := min(rest, chunk)
		if _, err := to.Write(interp.Random(rng, ir.TypeOf(t.DType, some), nil, r).Tensor().Data); err != nil {
			return err
		}
		rest -= some
	}
	return nil
}
