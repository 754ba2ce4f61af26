package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/npy"
)

// readInputs makes the input tensors of a method from the values of -i: NAME=@FILE.npy, NAME=@FILE.safetensors:KEY, or
// NAME=1,2,3. Every input must be given once. What a file says of its tensor is compared with the input, and with the memory
// that there is, before the tensor is read.
func readInputs(ctx context.Context, g *ir.Graph, given []string, mem *memory) (map[string]tensor.Tensor, error) {
	in := map[string]tensor.Tensor{}
	total := int64(0)
	for _, arg := range given {
		name, value, ok := strings.Cut(arg, "=")
		node, known := inputNamed(g, name)
		_, twice := in[name]
		switch {
		case !ok:
			return nil, cli.Usagef("-i "+arg, "is not NAME=VALUE; allowed are NAME=@FILE.npy, NAME=@FILE.safetensors:KEY and NAME=1,2,3")
		case !known:
			return nil, cli.Usagef("-i "+arg, "%s has no input %q; its inputs are %s", g.Name, name, inputList(g))
		case twice:
			return nil, cli.Usagef("-i "+arg, "input %q is given twice", name)
		}
		var err error
		accept := func(d dtype.DType, shape []int) error {
			if err := checkInput(g, node, d, shape); err != nil {
				return err
			}
			total += int64(d.Size()) * int64(tensor.Numel(shape))
			return mem.fits(part{"inputs", total})
		}
		if in[name], err = readInput(ctx, node, g.Syms, value, accept); err != nil {
			return nil, err
		}
	}
	for _, n := range g.Inputs() {
		if _, ok := in[n.Name]; !ok {
			return nil, cli.Usagef(g.Name, "input %q is not given; its inputs are %s", n.Name, inputList(g)).
				WithHint("add -i %s=@FILE.npy", n.Name)
		}
	}
	return in, nil
}

func inputNamed(g *ir.Graph, name string) (*ir.Node, bool) {
	for _, n := range g.Inputs() {
		if n.Name == name {
			return n, true
		}
	}
	return nil, false
}

func inputList(g *ir.Graph) string {
	var out []string
	for _, n := range g.Inputs() {
		out = append(out, n.Name+" "+n.Type.String())
	}
	return strings.Join(out, ", ")
}

func readInput(ctx context.Context, n *ir.Node, syms ir.Syms, value string, accept func(dtype.DType, []int) error) (tensor.Tensor, error) {
	file, isFile := strings.CutPrefix(value, "@")
	switch path, key, _ := strings.Cut(file, ".safetensors:"); {
	case !isFile && (strings.HasSuffix(value, ".npy") || key != ""):
		return tensor.Tensor{}, cli.Usagef("-i "+n.Name+"="+value, "is no list of numbers").WithHint("a file is named with an @: -i %s=@%s", n.Name, value)
	case !isFile:
		return parseNumbers(n, syms, value)
	case strings.HasSuffix(file, ".npy"):
		return npy.ReadFile(ctx, file, accept)
	case key != "":
		return readSafetensors(path+".safetensors", key, accept)
	}
	return tensor.Tensor{}, cli.Usagef("-i "+n.Name+"="+value, "not a kind of file that can be read; allowed are @FILE.npy and @FILE.safetensors:KEY")
}

// parseNumbers reads numbers given on the command line. Their shape is the input's; one unknown size follows from how
// many there are.
func parseNumbers(n *ir.Node, syms ir.Syms, value string) (tensor.Tensor, error) {
	bad := func(format string, args ...any) (tensor.Tensor, error) {
		return tensor.Tensor{}, cli.Usagef("-i "+n.Name+"="+value, format, args...)
	}
	fields := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	shape, err := shapeFor(n.Type.Shape, syms, len(fields))
	if err != nil {
		return bad("%d numbers for %s %v: %w", len(fields), n.Name, n.Type, err)
	}
	a := tensor.NewArray(n.Type.DType, shape...)
	for i, f := range fields {
		if a.F != nil {
			if a.F[i], err = strconv.ParseFloat(f, 64); err != nil {
				return bad("%q is not a number", f)
			}
			continue
		}
		lo, hi := n.Type.DType.IntRange()
		if a.I[i], err = strconv.ParseInt(f, 10, 64); err != nil || a.I[i] < lo || a.I[i] > hi {
			return bad("%q is not an integer from %d to %d", f, lo, hi)
		}
	}
	return a.Tensor(), nil
}

// shapeFor is the one instance of a shape that has n elements.
func shapeFor(s ir.Shape, syms ir.Syms, n int) ([]int, error) {
	numel, ok := s.Numel()
	var open ir.Syms
	for _, d := range s {
		for _, name := range d.Symbols() {
			if x, _ := syms.Find(name); !slices.Contains(open, x) {
				open = append(open, x)
			}
		}
	}
	if !ok || len(open) > 1 {
		return nil, fmt.Errorf("the sizes of %v do not follow from a list; give a file", s)
	}
	if len(open) == 0 && int64(n) != numel.B {
		return nil, fmt.Errorf("it takes %d", numel.B)
	}
	values, err := open.Solve(nil, []ir.Equation{{Dim: numel, Size: int64(n)}})
	if by := numel.Divisor(); err != nil && (by == 0 || int64(n)%by != 0) {
		return nil, fmt.Errorf("their number must be a multiple of %d", by)
	}
	return s.Eval(values), err
}

// checkInput compares the type of a tensor with an input, as far as that is possible without the others. Errors are those of
// checkInputs.
func checkInput(g *ir.Graph, n *ir.Node, d dtype.DType, shape []int) error {
	want := n.Type
	if d != want.DType {
		return badInput(g, n, d, shape).WithHint("save it as a.astype('%s')", numpyName(want.DType))
	}
	if len(shape) != len(want.Shape) {
		return badInput(g, n, d, shape).WithHint("it needs %d dimensions", len(want.Shape))
	}
	for i, dim := range want.Shape {
		size := int64(shape[i])
		switch lo, hi := g.Syms.Bounds(dim); {
		case size >= lo && size <= hi:
		case lo == hi:
			return badInput(g, n, d, shape).WithHint("size %d must be %d", size, lo)
		default:
			return badInput(g, n, d, shape).WithHint("size %d of %v must be %d to %d", size, dim, lo, hi)
		}
	}
	return nil
}

func badInput(g *ir.Graph, n *ir.Node, d dtype.DType, shape []int) *diag.Error {
	return diag.New(device.ErrInput, "input "+n.Name, "is %s%v; allowed is %v%s", d, brackets(shape), n.Type, rangesOf(n.Type, g.Syms))
}

// checkInputs compares the tensors with the method's inputs and infers the values of its symbols. Errors are
// *diag.Error with code device.ErrInput, and name the input.
func checkInputs(g *ir.Graph, in map[string]tensor.Tensor) (map[string]int64, error) {
	var eqs []ir.Equation
	var of []*ir.Node // of each equation
	for _, n := range g.Inputs() {
		t := in[n.Name]
		if err := checkInput(g, n, t.DType, t.Shape); err != nil {
			return nil, err
		}
		for i, d := range n.Type.Shape {
			eqs, of = append(eqs, ir.Equation{Dim: d, Size: int64(t.Shape[i]), Of: "input " + n.Name}), append(of, n)
		}
	}
	syms, err := g.Syms.Solve(nil, eqs)
	var which *ir.SizeError
	switch {
	case err == nil:
		return syms, nil
	case errors.As(err, &which) && which.Equation >= 0:
		n := of[which.Equation]
		return nil, badInput(g, n, in[n.Name].DType, in[n.Name].Shape).WithHint("%v", err)
	}
	return nil, diag.New(device.ErrInput, g.Name, "%w", err)
}

// brackets prints a shape as types do.
func brackets(shape []int) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ",")
}

// rangesOf lists the ranges of the symbols in t: " with N from 1 to 64".
func rangesOf(t ir.Type, syms ir.Syms) string {
	parts := map[string]string{}
	for _, d := range t.Shape {
		for _, name := range d.Symbols() {
			s, _ := syms.Find(name)
			parts[name] = fmt.Sprintf("%s from %d to %d", name, s.Min, s.Max)
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " with " + strings.Join(slices.Sorted(maps.Values(parts)), ", ")
}

func numpyName(d dtype.DType) string {
	names := map[dtype.DType]string{dtype.F32: "float32", dtype.F16: "float16", dtype.F64: "float64", dtype.I8: "int8", dtype.I16: "int16",
		dtype.I32: "int32", dtype.I64: "int64", dtype.U8: "uint8", dtype.U32: "uint32", dtype.Bool: "bool"}
	if s, ok := names[d]; ok {
		return s
	}
	return d.String()
}

// signature prints name(inputs) -> outputs of a method.
func signature(g *ir.Graph) string {
	var outs []string
	for _, o := range g.Outputs {
		outs = append(outs, o.Name+" "+o.Node.Type.String())
	}
	var ranges []string
	for _, s := range g.Syms {
		ranges = append(ranges, fmt.Sprintf("%s from %d to %d", s.Name, s.Min, s.Max))
	}
	text := fmt.Sprintf("%s(%s) -> %s", g.Name, inputList(g), strings.Join(outs, ", "))
	if len(ranges) > 0 {
		text += ", " + strings.Join(ranges, ", ")
	}
	return text
}
