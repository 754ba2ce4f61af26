package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/npy"
)

// readInputs reads the input tensors of a method from the values of -i: NAME=@FILE.npy, NAME=@FILE.npz:KEY,
// NAME=@FILE.safetensors:KEY, or NAME=1,2,3. Every input must be given exactly once. Before it reads a tensor, it
// compares the type in the file with the input, and calls fits with the total size of the inputs in bytes. fill may
// generate inputs that are not given.
func readInputs(ctx context.Context, m *rlx.Method, given []string, fits func(bytes int64) error,
	fill func(missing []rlx.Value) (map[string]rlx.Tensor, error)) (map[string]rlx.Tensor, error) {
	in := map[string]rlx.Tensor{}
	total := int64(0)
	for _, arg := range given {
		name, value, ok := strings.Cut(arg, "=")
		input, known := m.Input(name)
		_, twice := in[name]
		switch {
		case !ok:
			return nil,
				cli.Usagef(
					"-i "+arg,
					"is not NAME=VALUE; allowed are NAME=@FILE.npy, NAME=@FILE.npz:NAME, NAME=@FILE.safetensors:KEY and NAME=1,2,3")
		case !known:
			return nil, cli.Usagef("-i "+arg, "%s has no input %q; its inputs are %s", m.Name, name, inputList(m))
		case twice:
			return nil, cli.Usagef("-i "+arg, "input %q is given twice", name)
		}
		accept := func(d dtype.DType, shape []int) error {
			want := dtype.DType(input.DType)
			err := m.CheckInput(name, rlx.DType(d), shape)
			if e, ok := errors.AsType[*diag.Error](err); ok && d != want {
				e.WithHint("save it as a.astype('%s')", numpyName(want))
			}
			if err != nil {
				return err
			}
			total += int64(d.Size()) * int64(tensor.Numel(shape))
			return fits(total)
		}
		t, err := readInput(ctx, input, value, accept)
		if err != nil {
			return nil, err
		}
		in[name] = forModel(t)
	}
	var missing []rlx.Value
	for _, v := range m.Inputs {
		if _, ok := in[v.Name]; !ok {
			missing = append(missing, v)
		}
	}
	made, err := fill(missing)
	if err != nil {
		return nil, err
	}
	for _, v := range missing {
		t, ok := made[v.Name]
		if !ok && v.Optional {
			continue
		}
		if !ok {
			return nil, cli.Usagef(m.Name, "input %q is not given; its inputs are %s", v.Name, inputList(m)).
				WithHint("add -i %s=@FILE.npy, or --random 1", v.Name)
		}
		in[v.Name] = t
	}
	return in, nil
}

func inputList(m *rlx.Method) string {
	var out []string
	for _, v := range m.Inputs {
		out = append(out, v.String())
	}
	return strings.Join(out, ", ")
}

func readInput(ctx context.Context, v rlx.Value, value string, accept func(dtype.DType, []int) error) (
	tensor.Tensor, error) {
	file, isFile := strings.CutPrefix(value, "@")
	switch path, key, _ := strings.Cut(file, ".safetensors:"); {
	case !isFile && (strings.HasSuffix(value, ".npy") || key != ""):
		return tensor.Tensor{}, cli.Usagef("-i "+v.Name+"="+value, "is not a list of numbers").WithHint(
			"a file is named with an @: -i %s=@%s", v.Name, value)
	case !isFile:
		return parseNumbers(v, value)
	case strings.HasSuffix(file, ".npy"):
		return npy.ReadFile(ctx, file, accept)
	case key != "":
		return readSafetensors(path+".safetensors", key, accept)
	}
	if path, key, keyed := strings.Cut(file, ".npz:"); keyed || strings.HasSuffix(file, ".npz") {
		return npy.ReadArchive(ctx, strings.TrimSuffix(path, ".npz")+".npz", key, accept)
	}
	return tensor.Tensor{},
		cli.Usagef(
			"-i "+v.Name+"="+value,
			"not a kind of file that can be read; allowed are @FILE.npy, @FILE.npz:NAME and @FILE.safetensors:KEY")
}

// parseNumbers parses numbers on the command line. They get the input's shape. One unknown size is derived from the
// number of numbers.
func parseNumbers(v rlx.Value, value string) (tensor.Tensor, error) {
	bad := func(format string, args ...any) (tensor.Tensor, error) {
		return tensor.Tensor{}, cli.Usagef("-i "+v.Name+"="+value, format, args...)
	}
	fields := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' })
	shape, err := v.ShapeOf(len(fields))
	if err != nil {
		return bad("%d numbers for %v: %w", len(fields), v, err)
	}
	a := tensor.NewArray(dtype.DType(v.DType), shape...)
	for i, f := range fields {
		if a.Floats != nil {
			if a.Floats[i], err = strconv.ParseFloat(f, 64); err != nil {
				return bad("%q is not a number", f)
			}
			continue
		}
		lo, hi := dtype.DType(v.DType).IntRange()
		if a.Ints[i], err = strconv.ParseInt(f, 10, 64); err != nil || a.Ints[i] < lo || a.Ints[i] > hi {
			return bad("%q is not an integer from %d to %d", f, lo, hi)
		}
	}
	return a.Tensor(), nil
}

// brackets prints a shape as types do.
func brackets(shape []int) string {
	return strings.ReplaceAll(fmt.Sprint(shape), " ", ",")
}

func numpyName(d dtype.DType) string {
	names := map[dtype.DType]string{dtype.F32: "float32", dtype.F16: "float16", dtype.F64: "float64", dtype.I8: "int8",
		dtype.I16: "int16",
		dtype.I32: "int32", dtype.I64: "int64", dtype.U8: "uint8", dtype.U32: "uint32", dtype.Bool: "bool"}
	if s, ok := names[d]; ok {
		return s
	}
	return d.String()
}
