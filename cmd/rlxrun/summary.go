package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/plugins/rpc"
)

// summary is the end of a run: one line for people, an object for programs.
type summary struct {
	Device       string          `json:"device"`
	Sandbox      rpc.Confinement `json:"sandbox"` // of the backend's process
	Precision    string          `json:"precision"`
	Kernels      kernelSummary   `json:"kernels"`
	ArenaBytes   int64           `json:"arena_bytes"`
	WeightsBytes int64           `json:"weights_bytes"`
	KernelBytes  int64           `json:"kernel_bytes"`                  // what kernels and definitions compute in, at most
	DeviceMemory int64           `json:"device_memory_bytes,omitempty"` // of the device's own memory, by the methods that ran
	LoadMS       float64         `json:"load_ms"`                       // process start to first dispatch
	TotalMS      float64         `json:"total_ms"`                      // process start to now
	Methods      []methodSummary `json:"methods"`
	Outputs      []outputSummary `json:"outputs"`
	Masks        []maskSummary   `json:"masks,omitempty"`
	Profile      []profileRow    `json:"profile,omitempty"`
}

type kernelSummary struct {
	Native    bool     `json:"native"`
	Reference []string `json:"reference"` // ops that the backend runs by the slow reference
	Ops       int      `json:"ops"`
}

type methodSummary struct {
	Method string           `json:"method"`
	Target string           `json:"target"`
	Sizes  map[string]int64 `json:"sizes,omitempty"`
	MS     float64          `json:"ms"`
	// Lowering says which ops of the model the compiler rewrote for the target, and which it left to the reference.
	Lowering string `json:"lowering,omitempty"`
}

type outputSummary struct {
	Name  string   `json:"name"`
	Files []string `json:"files,omitempty"`
	Type  string   `json:"type,omitempty"`
	Data  any      `json:"data,omitempty"` // of NAME=-
}

// deviceName is the device as the closing line and bench call it; it begins with what --device takes.
func (h *host) deviceName() string {
	s := h.backend + ":" + h.device.ID
	if h.device.Name != "" {
		s += " " + h.device.Name
	}
	about := h.device.Features
	if t := h.device.Type; t != "" && t != h.backend {
		about = append([]string{t}, about...) // so that nobody takes a software adapter for a GPU
	}
	if len(about) > 0 {
		s += " (" + strings.Join(about, ", ") + ")"
	}
	return s
}

// kernelsOf says how the ops of the loaded methods are run.
func kernelsOf(ready map[string]*loaded) kernelSummary {
	native := map[string]bool{}
	for _, l := range ready {
		for _, k := range l.kernels {
			was, seen := native[k.Op]
			native[k.Op] = k.Native && (was || !seen)
		}
	}
	k := kernelSummary{Ops: len(native), Reference: []string{}}
	for op, ok := range native {
		if !ok {
			k.Reference = append(k.Reference, op)
		}
	}
	slices.Sort(k.Reference)
	k.Native = len(k.Reference) == 0
	return k
}

func (k kernelSummary) String() string {
	if k.Native {
		return "native"
	}
	return fmt.Sprintf("native except %d of %d ops by the reference (%s)", len(k.Reference), k.Ops, strings.Join(k.Reference, ", "))
}

func arenaOf(ready map[string]*loaded) (n int64) {
	for _, l := range ready {
		n += l.prog.ArenaSize
	}
	return n
}

// kernelMemory is what the kernels of the loaded methods compute in.
func kernelMemory(ready map[string]*loaded) (n int64) {
	for _, l := range ready {
		n += l.memory
	}
	return n
}

// summarise collects what is known at the end of a run.
func (h *host) summarise(ready map[string]*loaded, j job, sinks []sink, products map[string]product) (*summary, error) {
	s := &summary{Device: h.deviceName(), Sandbox: h.sandbox, Precision: h.precision, Kernels: kernelsOf(ready), ArenaBytes: arenaOf(ready), WeightsBytes: h.model.weights,
		KernelBytes: kernelMemory(ready),
		LoadMS:      ms(h.runs[0].begin.Sub(cli.Started())), Outputs: []outputSummary{}}
	held := map[*program.Program]int64{}
	for _, r := range h.runs {
		s.DeviceMemory += r.stats.DeviceMemory - held[r.prog]
		held[r.prog] = r.stats.DeviceMemory
		s.Methods = append(s.Methods, methodSummary{r.prog.Method, r.prog.Target, r.syms, ms(r.wall), r.prog.Lowering()})
		if h.debug.profile {
			rows, err := profileOf(r)
			if err != nil {
				return nil, err
			}
			s.Profile = append(s.Profile, rows...)
		}
	}
	for _, k := range sinks {
		o := outputSummary{Name: k.offer.name, Files: k.paths()}
		if k.offer.pictures == nil {
			t := products[k.offer.name].tensor
			o.Type = t.DType.String() + brackets(t.Shape)
			if k.dest == "-" && h.env.JSON {
				o.Data = nested(t)
			}
		}
		s.Outputs = append(s.Outputs, o)
	}
	if seg, ok := j.(*segmentJob); ok {
		s.Masks = seg.summary()
	}
	return s, nil
}

// print ends the run.
func (s *summary) print(env *cli.Env) error {
	total := time.Since(cli.Started())
	s.TotalMS = ms(total)
	if env.JSON {
		return env.WriteJSON(s)
	}
	if len(s.Profile) > 0 {
		if err := cli.Table(env.Stderr, profileTable(s.Profile)); err != nil {
			return err
		}
	}
	memory := fmt.Sprintf("arena %s; weights %s", cli.Size(s.ArenaBytes), cli.Size(s.WeightsBytes))
	if s.KernelBytes > 0 {
		memory += "; kernels' memory " + cli.Size(s.KernelBytes)
	}
	if s.DeviceMemory > 0 {
		memory += fmt.Sprintf("; device memory %s", cli.Size(s.DeviceMemory))
	}
	for _, m := range s.Methods {
		if m.Lowering != "" {
			env.Notef("%s for %s; %s", m.Method, m.Target, m.Lowering)
		}
	}
	env.Notef("%s; %s; kernels %s; %s; sandbox %s; %.2f s", s.Device, s.Precision, s.Kernels, memory, s.Sandbox, total.Seconds())
	return nil
}

// nested is a tensor as nested lists of numbers. What JSON cannot say (NaN, infinities) becomes a string.
func nested(t tensor.Tensor) any {
	a := t.Array()
	var build func(dims []int, first, n int) any
	build = func(dims []int, first, n int) any {
		if len(dims) == 0 {
			return jsonNumber(a, first)
		}
		list := make([]any, dims[0])
		for i := range list {
			step := n / dims[0]
			list[i] = build(dims[1:], first+i*step, step)
		}
		return list
	}
	return build(t.Shape, 0, a.Len())
}

// number is printed as the text form prints it.
type number string

// MarshalJSON writes the digits.
func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

func jsonNumber(a *tensor.Array, i int) any {
	text := string(appendNumber(nil, a, i))
	if strings.ContainsAny(text, "NIn") {
		return text
	}
	return number(text)
}

// addTrace adds the file of --trace, where it is asked for: the spans and the steps of all runs.
func (h *host) addTrace(ctx context.Context, w *files) error {
	if h.debug.trace == "" {
		return nil
	}
	for _, r := range h.runs {
		if err := h.trace.steps(r); err != nil {
			return err
		}
	}
	return w.add(ctx, h.debug.trace, func(out io.Writer) error { return h.trace.write(out, h.backend) })
}

// flopsOf counts the arithmetic of a program under given sizes.
func flopsOf(b *program.Bound) (n int64) {
	for _, s := range b.Steps {
		n += flops(s)
	}
	return n
}
