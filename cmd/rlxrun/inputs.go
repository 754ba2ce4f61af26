package main

import (
	"context"
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
// NAME=1,2,3. Every input must be given once.
func readInputs(ctx context.Context, g *ir.Graph, given []string) (map[string]tensor.Tensor, error) {
	in := map[string]tensor.Tensor{}
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
		if in[name], err = readInput(ctx, node, g.Syms, value); err != nil {
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

func readInput(ctx context.Context, n *ir.Node, syms ir.Syms, value string) (tensor.Tensor, error) {
	file, isFile := strings.CutPrefix(value, "@")
	switch path, key, _ := strings.Cut(file, ".safetensors:"); {
	case !isFile && (strings.HasSuffix(value, ".npy") || key != ""):
		return tensor.Tensor{}, cli.Usagef("-i "+n.Name+"="+value, "is no list of numbers").WithHint("a file is named with an @: -i %s=@%s", n.Name, value)
	case !isFile:
		return parseNumbers(n, syms, value)
	case strings.HasSuffix(file, ".npy"):
		return npy.ReadFile(ctx, file)
	case key != "":
		return readSafetensors(ctx, path+".safetensors", key)
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
	known, open := int64(1), -1
	for i, d := range s {
		switch {
		case d.IsStatic():
			known *= d.B
		case open >= 0:
			return nil, fmt.Errorf("sizes %v and %v do not follow from a list; give a file", s[open], d)
		default:
			open = i
		}
	}
	if open < 0 {
		if int64(n) != known {
			return nil, fmt.Errorf("it takes %d", known)
		}
		return s.Eval(nil), nil
	}
	if known == 0 || int64(n)%known != 0 {
		return nil, fmt.Errorf("their number must be a multiple of %d", known)
	}
	v, err := solve(s[open], syms, int64(n)/known)
	if err != nil {
		return nil, err
	}
	return s.Eval(map[string]int64{s[open].Sym: v}), nil
}

// solve finds the value of d's symbol at which d is size.
func solve(d ir.Dim, syms ir.Syms, size int64) (int64, error) {
	sym, _ := syms.Find(d.Sym)
	if (size-d.B)%d.A == 0 {
		if v := (size - d.B) / d.A; v >= sym.Min && v <= sym.Max {
			return v, nil
		}
	}
	return 0, fmt.Errorf("size %d of %v; allowed are %s from %d to %d", size, d, d.Sym, sym.Min, sym.Max)
}

// checkInputs compares the tensors with the method's inputs and infers the values of its symbols. Errors are
// *diag.Error with code device.ErrInput, and name the input.
func checkInputs(g *ir.Graph, in map[string]tensor.Tensor) (map[string]int64, error) {
	syms, from := map[string]int64{}, map[string]string{}
	for _, n := range g.Inputs() {
		t, want := in[n.Name], n.Type
		bad := func(format string, args ...any) error {
			return diag.New(device.ErrInput, "input "+n.Name, "is %s%v; allowed is %v%s", t.DType, brackets(t.Shape), want,
				rangesOf(want, g.Syms)).WithHint(format, args...)
		}
		if t.DType != want.DType {
			return nil, bad("save it as a.astype('%s')", numpyName(want.DType))
		}
		if len(t.Shape) != len(want.Shape) {
			return nil, bad("it needs %d dimensions", len(want.Shape))
		}
		for i, d := range want.Shape {
			size := int64(t.Shape[i])
			if d.IsStatic() {
				if size != d.B {
					return nil, bad("size %d must be %d", size, d.B)
				}
				continue
			}
			v, err := solve(d, g.Syms, size)
			if err != nil {
				return nil, bad("%v", err)
			}
			if have, ok := syms[d.Sym]; ok && have != v {
				return nil, bad("%s is %d here and %d in input %s", d.Sym, v, have, from[d.Sym])
			}
			syms[d.Sym], from[d.Sym] = v, n.Name
		}
	}
	for _, s := range g.Syms {
		if _, ok := syms[s.Name]; !ok {
			return nil, diag.New(device.ErrInput, g.Name, "size %s does not follow from any input", s.Name)
		}
	}
	return syms, nil
}

// brackets prints a shape as types do.
func brackets(shape []int) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ",")
}

// rangesOf lists the ranges of the symbols in t: " with N from 1 to 64".
func rangesOf(t ir.Type, syms ir.Syms) string {
	parts := map[string]string{}
	for _, d := range t.Shape {
		if s, ok := syms.Find(d.Sym); ok {
			parts[s.Name] = fmt.Sprintf("%s from %d to %d", s.Name, s.Min, s.Max)
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
