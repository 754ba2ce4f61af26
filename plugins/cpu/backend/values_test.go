package backend

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// TestBadValues gives bad integers, such as an index out of range or a divisor of 0, to all ops with integer operands.
// The definition and the kernel must refuse them in the same words, and each must name the op once.
func TestBadValues(t *testing.T) {
	refused := map[string]bool{}
	for _, def := range ir.Defs() {
		if def.Eval == nil || def.Effects || def.Updates {
			continue
		}
		for _, c := range def.Cases() {
			for k, typ := range c.In {
				if absent(typ) || typ.DType.IsFloat() || typ.DType == dtype.Bool || typ.DType.Values() > 1 {
					continue
				}
				for _, bad := range []int64{-1, 0, 100} {
					if bad < 0 && strings.HasPrefix(typ.DType.String(), "u") {
						continue
					}
					if want, got := refusals(t, def, c, k, bad); want != "" {
						refused[def.Name] = true
						if got != want {
							t.Errorf("%v %v with operand %d of %d: the kernel says %q; want %q", def.Name, c.In, k, bad,
								got, want)
						}
					}
				}
			}
		}
	}
	if len(refused) < 10 {
		t.Errorf("only %v refuse a value", refused)
	}
}

// absent reports whether a case has no operand there.
func absent(t ir.Type) bool { return t.DType == ir.Type{}.DType && t.Shape == nil }

// refusals returns the errors of the definition and of the backend, without the name of the op and its node, if operand
// k is all bad. All other operands are 1. The definition's error is empty if it takes the value.
func refusals(t *testing.T, def *ir.OpDef, c ir.Case[any], k int, bad int64) (reference, kernel string) {
	t.Helper()
	outs, err := def.InferResults(c.Attrs, c.In, c.Out, nil)
	if err != nil {
		return "", ""
	}
	g := ir.NewGraph("f")
	var nodes []*ir.Node
	var in, out []*tensor.Array
	for i, typ := range c.In {
		if absent(typ) {
			nodes, in = append(nodes, nil), append(in, nil)
			continue
		}
		nodes = append(nodes, op.Input(g, fmt.Sprint("x", i), typ))
		a := tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...)
		value := int64(1)
		if i == k {
			value = bad
		}
		for j := range a.Floats {
			a.Floats[j] = float64(value)
		}
		for j := range a.Ints {
			a.Ints[j] = value
		}
		in = append(in, a)
	}
	for _, typ := range outs {
		out = append(out, tensor.NewArray(typ.DType, typ.Shape.Eval(nil)...))
	}
	err = def.Eval(c.Attrs, in, out...)
	if err == nil {
		return "", ""
	}
	reference, ok := strings.CutPrefix(err.Error(), def.Name+": ")
	if !ok || strings.Contains(reference, def.Name+":") {
		t.Errorf("%q does not name the op once", err)
	}
	for i, y := range g.AddResults(len(outs), def, c.Attrs, nodes...) {
		g.Return(fmt.Sprint("y", i), y)
	}
	if g.Err() != nil { // a declared op
		return "", ""
	}
	p, _, err := sched.Build(g, sched.Options{Target: "portable"})
	if err != nil {
		return "", ""
	}
	io := tensor.AlignedBytes(int(p.IOSize))
	bound, err := p.Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range slices.DeleteFunc(slices.Clone(in), func(a *tensor.Array) bool { return a == nil }) {
		o := bound.Inputs[i]
		copy(io[o.Offset:o.Offset+o.Bytes], a.Tensor().Data)
	}
	e, err := Backend{}.Load(t.Context(), device.Load{Program: p, Threads: 1, IO: io})
	if err != nil {
		return "", ""
	}
	defer e.Close()
	_, err = e.Run(t.Context(), device.Run{IO: io, Progress: func(int) {}})
	if err == nil {
		return reference, "nothing"
	}
	text := err.Error()
	if n := strings.Count(" "+text, " "+def.Name); n != 1 && !strings.Contains(reference, def.Name) {
		t.Errorf("%q names the op %d times; want once", text, n)
	}
	_, kernel, _ = strings.Cut(text, ": ")
	return reference, kernel
}
