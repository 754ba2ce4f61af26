package main

import (
	"context"
	"slices"
	"strings"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/ctxio"
	"github.com/rlx-go/rlx/internal/values"
)

// expectFlags compare the outputs of a run with a file.
type expectFlags struct {
	path      string
	tolerance float64
	want      map[string]tensor.Tensor // the contents of the file, by output
}

func (f *expectFlags) declare(fs *cli.FlagSet) {
	fs.StringVar(&f.path, "expect", "",
		"`FILE.safetensors` fail if an output differs from the tensor of its name by more than its op allows")
	fs.Float64Var(&f.tolerance, "tolerance", 0,
		"`REL` with --expect: allow this times the largest element of the output as well")
}

// read reads the file. Its tensors must be outputs of the methods.
func (f *expectFlags) read(ctx context.Context, s *session, methods []*rlx.Method) error {
	switch {
	case f.path == "" && f.tolerance != 0:
		return cli.Usagef("--tolerance", "is for --expect")
	case f.path == "":
		return nil
	case f.tolerance < 0:
		return cli.Usagef("--tolerance", "%v is negative", f.tolerance)
	}
	names, err := ctxio.Do(ctx, f.path, func() ([]string, error) { return safetensorsNames(f.path) }, nil)
	if err != nil {
		return err
	}
	f.want = map[string]tensor.Tensor{}
	var outputs []string
	for _, m := range methods {
		for _, v := range m.Outputs {
			outputs = append(outputs, v.Name)
			if _, twice := f.want[v.Name]; twice || !slices.Contains(names, v.Name) {
				continue
			}
			accept := func(d dtype.DType, shape []int) error {
				if d != dtype.DType(v.DType) || len(shape) != len(v.Shape) {
					return diag.New(code.InputTensor, f.path, "%s is %v%s; the output is %v", v.Name, d,
						brackets(shape), v)
				}
				return s.need("expected outputs", int64(d.Size())*int64(tensor.Numel(shape)))
			}
			t, err := ctxio.Do(ctx, f.path, func() (tensor.Tensor, error) {
				return readSafetensors(f.path, v.Name, accept)
			}, nil)
			if err != nil {
				return err
			}
			f.want[v.Name] = t
		}
	}
	for _, name := range names {
		if _, ok := f.want[name]; !ok {
			return cli.Usagef("--expect "+f.path, "there is no output %q; outputs are %s", name,
				strings.Join(outputs, ", "))
		}
	}
	return nil
}

// check compares the outputs of the last run of each method with the file.
func (f *expectFlags) check(s *session, methods []*rlx.Method, products map[string]product) error {
	for _, m := range methods {
		for i, v := range m.Outputs {
			want, ok := f.want[v.Name]
			got := products[v.Name].tensor
			if !ok || got.Data == nil {
				continue
			}
			plan, err := s.plan(m.Name)
			if err != nil {
				return err
			}
			var sizes map[string]int64
			for _, r := range s.runs {
				if r.method == m.Name {
					sizes = r.Sizes
				}
			}
			label, tol, err := plan.OutputTolerance(sizes, i)
			if err != nil {
				return err
			}
			d, err := values.Compare(got.Array(), want.Array(), tol, f.tolerance)
			if err != nil {
				return diag.New(code.Differs, "output "+v.Name, "%w", err)
			}
			if d.Bad > 0 {
				return diag.New(code.Differs, "output "+v.Name, "%s: %v", label, &d).
					WithHint("rlxrun diff finds the step")
			}
		}
	}
	return nil
}
