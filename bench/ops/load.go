package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/pass"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// loaded is a program of one op, ready to run.
type loaded struct {
	p            *program.Program
	exe          device.Executable
	run          device.Run
	repeat       func(exe device.Executable, times int) (time.Duration, error) // nil on the cpu
	ran          bool                                                          // whether the program has run
	bytes, flops int64                                                         // of one run
}

// load compiles the op as a model with a single op, loads it, and stores the values of its inputs.
func load(b device.Backend, q request, values [][]byte, threads int) (*loaded, error) {
	g, err := graph(q)
	if err != nil {
		return nil, err
	}
	ctx := context.Background()
	info, err := b.Info(ctx)
	if err != nil {
		return nil, err
	}
	x := &loaded{}
	weights, given := map[string][]byte{}, map[string][]byte{}
	for i, o := range q.Inputs {
		given[o.Name] = values[i]
		if o.Weight {
			weights[o.Name] = values[i]
		}
		x.bytes += int64(o.Bytes)
	}
	for _, n := range g.Nodes {
		if n.Op != ir.ResultDef && len(n.In) > 0 || len(n.Op.Operands) == 0 && !n.Op.Effects {
			types := make([]ir.Type, len(n.In))
			for k, in := range n.Operands() {
				types[k] = in.Type
			}
			x.flops = n.Op.FLOPs(n.Attrs, types, n.ResultTypes()...)
			for _, t := range n.ResultTypes() {
				x.bytes += t.Bytes(nil)
			}
		}
	}
	g, report, err := pass.Run(g, info.Target, pass.Options{})
	if err != nil {
		return nil, err
	}
	for name, t := range report.Folded {
		weights[name] = t.Data
	}
	at, size := map[string]int64{}, int64(0)
	for name, b := range weights {
		at[name] = size
		size += program.AlignUp(max(int64(len(b)), 1))
	}
	space := tensor.AlignedBytes(int(size))
	for name, b := range weights {
		copy(space[at[name]:], b)
	}
	x.p, _, err = sched.Build(
		g, sched.Options{Weights: func(name string) (int64, bool) { o, ok := at[name]; return o, ok }})
	if err != nil {
		return nil, err
	}
	x.p.Target = info.Target.Name
	x.repeat = repeats[info.Name]
	if x.exe, err = b.Load(ctx, device.Load{Program: x.p, Weights: space, Threads: threads}); err != nil {
		return nil, err
	}
	x.run.IO = tensor.AlignedBytes(int(x.p.IOSize))
	bound, err := x.p.Bind(nil)
	if err != nil {
		return nil, err
	}
	for i, n := range x.p.Graph.Inputs() {
		if v := given[n.Name]; int64(len(v)) != bound.Inputs[i].Bytes {
			return nil, fmt.Errorf("input %s has %d bytes; want %d", n.Name, len(v), bound.Inputs[i].Bytes)
		}
		copy(x.run.IO[bound.Inputs[i].Offset:], given[n.Name])
	}
	if x.p.StateSize > 0 {
		if x.run.State, err = b.NewState(ctx, "", x.p.StateSize); err != nil {
			return nil, err
		}
		for _, t := range x.p.States() {
			if err := x.run.State.Write(ctx, t.Offset, given[t.Name]); err != nil {
				return nil, err
			}
		}
	}
	return x, nil
}

// graph returns a graph that contains only the op. If the op updates a state, its first operand is that state, which
// stays on the device and is not an output.
func graph(q request) (*ir.Graph, error) {
	name, rest, _ := strings.Cut(q.Line, " ")
	def, ok := ir.Find(name)
	if !ok {
		return nil, fmt.Errorf("op %q does not exist; spec/ops.md lists the ops", name)
	}
	var b strings.Builder
	if q.Graphs != "" {
		fmt.Fprintf(&b, "%s\ngraph main\n", q.Graphs)
	}
	for _, o := range q.Inputs {
		kind := "input"
		if first, _, _ := strings.Cut(rest, ","); def.Updates && first == o.Name {
			kind = "state"
		} else if o.Weight {
			kind = "param"
		}
		fmt.Fprintf(&b, "%s = %s : %s\n", o.Name, kind, o.Type)
	}
	var labels, outputs []string
	for k := range q.Results {
		label := fmt.Sprint("out", k)
		labels, outputs = append(labels, label), append(outputs, label+"="+label)
	}
	fmt.Fprintf(&b, "%s = %s : %s\n", strings.Join(labels, ", "), q.Line, strings.Join(q.Results, ", "))
	if def.Updates {
		fmt.Fprintf(&b, "one = const {value=1.0} : f32[1]\nreturn one=one\n")
	} else {
		fmt.Fprintf(&b, "return %s\n", strings.Join(outputs, ", "))
	}
	return ir.Parse(b.String())
}

// steps returns the ops of the program, with "reference " before those without a kernel.
func (x *loaded) steps() []string {
	var out []string
	for _, k := range x.exe.Kernels() {
		if k.Native {
			out = append(out, k.Op)
		} else {
			out = append(out, "reference "+k.Op)
		}
	}
	return slices.Sorted(slices.Values(out))
}

// times runs the program repeatedly for span, and returns the times in nanoseconds. It makes at least three runs,
// unless these take longer than 4*span. On a GPU, a time is the average of ten consecutive runs by the device's clock,
// without the transfer of inputs and results.
func (x *loaded) times(span time.Duration) ([]int64, error) {
	if x == nil {
		return nil, errors.New(`nothing is loaded; send "load" first`)
	}
	var out []int64
	for begin := time.Now(); len(out) == 0 || len(out) < 3 && time.Since(begin) < 4*span || time.Since(begin) < span; {
		start := time.Now()
		if x.repeat == nil || !x.ran {
			if _, err := x.exe.Run(context.Background(), x.run); err != nil {
				return nil, err
			}
			x.ran = true
		}
		took := time.Since(start)
		if x.repeat != nil {
			var err error
			if took, err = x.repeat(x.exe, 10); err != nil {
				return nil, err
			}
		}
		out = append(out, took.Nanoseconds())
	}
	return out, nil
}

// results returns the concatenated bytes of the outputs, and their sizes.
func (x *loaded) results() (data []byte, sizes []int64) {
	bound, err := x.p.Bind(nil)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	for _, o := range bound.Outputs {
		data = append(data, x.run.IO[o.Offset:o.Offset+o.Bytes]...)
		sizes = append(sizes, o.Bytes)
	}
	return data, sizes
}

func (x *loaded) close() {
	if x == nil {
		return
	}
	if x.run.State != nil {
		x.run.State.Close()
	}
	x.exe.Close()
}
