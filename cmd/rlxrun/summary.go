package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
)

// summary is printed after a run, as a line of text or as a JSON object.
type summary struct {
	Device       string          `json:"device"`
	Sandbox      rlx.Confinement `json:"sandbox"` // of the backend's process
	Precision    string          `json:"precision"`
	Kernels      kernelSummary   `json:"kernels"`
	ArenaBytes   int64           `json:"arena_bytes"`
	WeightsBytes int64           `json:"weights_bytes"`
	// upper bound of the scratch memory of kernels and the reference
	KernelBytes  int64           `json:"kernel_bytes"`
	DeviceMemory int64           `json:"device_memory_bytes,omitempty"` // device memory that the methods use
	LoadMS       float64         `json:"load_ms"`                       // from process start to the first dispatch
	TotalMS      float64         `json:"total_ms"`                      // from process start to now
	Methods      []methodSummary `json:"methods"`
	Outputs      []outputSummary `json:"outputs"`
	Profile      []profileRow    `json:"profile,omitempty"`
	Stats        []*statsRow     `json:"stats,omitempty"`
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
	Runs   int              `json:"runs"` // number of runs with these sizes
	MS     float64          `json:"ms"`   // total time of these runs
	// Lowering lists the ops that the compiler rewrote for the target, those that the reference runs, and those that
	// other backends run.
	Lowering string `json:"lowering,omitempty"`
	// only in the first entry of a method that several backends run in turn
	Crossings *crossingSummary `json:"crossings,omitempty"`
}

// crossingSummary is the total cost of switching between backends, over all runs of a method.
type crossingSummary struct {
	Backends []string `json:"backends"`
	Switches int      `json:"switches"` // changes from one backend to the next
	Values   int      `json:"values"`
	Bytes    int64    `json:"bytes"`
	MS       float64  `json:"ms"` // time in which no backend computed: calls and copies
}

// crossingsOf returns nil if one backend runs the whole method.
func crossingsOf(l rlx.Loaded) *crossingSummary {
	if len(l.Backends) == 0 {
		return nil
	}
	return &crossingSummary{l.Backends, l.Crossings.Switches, l.Crossings.Values, l.Crossings.Bytes,
		ms(l.Crossings.Time)}
}

// String formats it for the line of a method: "2 switches between backends copied 3 values (12 kB); 0.41 ms outside the
// backends".
func (c *crossingSummary) String() string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("; %s between backends copied %s (%s); %s ms outside the backends",
		cli.Count(c.Switches, "switch", "switches"), cli.Count(c.Values, "value", "values"), cli.Size(c.Bytes),
		cli.Digits(c.MS))
}

type outputSummary struct {
	Name  string   `json:"name"`
	Files []string `json:"files,omitempty"`
	Type  string   `json:"type,omitempty"`
	Data  any      `json:"data,omitempty"` // value of an output with the destination -
}

// deviceName names a device in the summary and in bench. It begins with the value for --device.
func deviceName(backend string, d rlx.Device) string {
	s := backend + ":" + d.ID
	if d.Name != "" {
		s += " " + d.Name
	}
	about := d.Features
	if t := d.Type; t != "" && t != backend {
		about = append([]string{t}, about...) // so that nobody mistakes a software adapter for a GPU
	}
	if len(about) > 0 {
		s += " (" + strings.Join(about, ", ") + ")"
	}
	return s
}

// kernelsOf summarises how the ops of the loaded methods run.
func kernelsOf(methods ...rlx.Loaded) kernelSummary {
	native := map[string]bool{}
	for _, l := range methods {
		for _, k := range l.Kernels {
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
	return fmt.Sprintf("native except %d of %d ops by the reference (%s)", len(k.Reference), k.Ops,
		strings.Join(k.Reference, ", "))
}

// summarise collects the summary at the end of a run.
func (s *session) summarise(j job, sinks []sink, products map[string]product) *summary {
	sum := &summary{Device: deviceName(s.backend.Name, s.host.Device()), Sandbox: s.host.Backend().Sandbox,
		Precision:    s.host.Precision(),
		WeightsBytes: s.model.Facts().Weights, Outputs: []outputSummary{}}
	if len(s.runs) > 0 { // there are no runs if all images were done before
		sum.LoadMS = ms(s.runs[0].Start.Sub(cli.Started()))
	}
	var ready []rlx.Loaded
	for _, m := range j.methods() {
		l := s.loaded(m.Name)
		ready, sum.ArenaBytes, sum.KernelBytes = append(ready, l), sum.ArenaBytes+l.Arena, sum.KernelBytes+l.Memory
	}
	sum.Kernels = kernelsOf(ready...)
	held := map[string]int64{}
	for _, runs := range s.runsBySize() {
		r := runs[0]
		l, took := s.loaded(r.method), time.Duration(0)
		for _, x := range runs {
			sum.DeviceMemory += x.DeviceMemory - held[r.method]
			held[r.method] = x.DeviceMemory
			took += x.Duration
		}
		m := methodSummary{Method: r.method, Target: l.Target, Sizes: r.Sizes, Runs: len(runs), MS: ms(took),
			Lowering: l.Lowering}
		if !slices.ContainsFunc(sum.Methods, func(m methodSummary) bool { return m.Method == r.method }) {
			m.Crossings = crossingsOf(l)
		}
		sum.Methods = append(sum.Methods, m)
		if s.debug.profile {
			sum.Profile = append(sum.Profile, profileOf(runs...)...)
		}
	}
	sum.Stats = s.stats.rows
	for _, k := range sinks {
		o := outputSummary{Name: k.offer.name, Files: k.paths()}
		if k.offer.folder {
			o.Files = []string{k.dest}
		} else if k.offer.pictures == nil && k.offer.ext == "" {
			t := products[k.offer.name].tensor
			o.Type = t.DType.String() + brackets(t.Shape)
			if k.dest == "-" && s.env.JSON {
				o.Data = nested(t)
			}
		}
		sum.Outputs = append(sum.Outputs, o)
	}
	return sum
}

// runsBySize groups runs by method and sizes, in the order of the first run of each group. Generating text takes a run
// per token.
func (s *session) runsBySize() (out [][]runRecord) {
	at := map[string]int{}
	for _, r := range s.runs {
		key := fmt.Sprint(r.method, r.Sizes)
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key], out = i, append(out, nil)
		}
		out[i] = append(out[i], r)
	}
	return out
}

// print prints the summary of a job.
func (s *summary) print(env *cli.Env, j job) error {
	total := time.Since(cli.Started())
	s.TotalMS = ms(total)
	if env.JSON {
		return env.WriteJSON(j.json(s))
	}
	if len(s.Profile) > 0 {
		if err := cli.Table(env.Stderr, profileTable(s.Profile)); err != nil {
			return err
		}
	}
	if len(s.Stats) > 0 {
		if err := cli.Table(env.Stderr, (&statsTable{rows: s.Stats}).table()); err != nil {
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
	for i, m := range s.Methods {
		if again := i > 0 && s.Methods[i-1].Method == m.Method; m.Lowering != "" && !again {
			env.Notef("%s for %s; %s%s", m.Method, m.Target, m.Lowering, m.Crossings)
		}
	}
	if t, ok := j.(interface{ note() string }); ok {
		for line := range strings.SplitSeq(t.note(), "\n") {
			env.Notef("%s", line)
		}
	}
	switch {
	case env.Verbose:
		env.Notef("%s; %s; kernels %s; %s; sandbox %s; %.2f s", s.Device, s.Precision, s.Kernels, memory, s.Sandbox,
			total.Seconds())
	case !s.Kernels.Native: // slow, so users should know
		env.Notef("kernels %s", s.Kernels)
	}
	return nil
}

// nested converts a tensor to nested lists of numbers. Numbers that JSON lacks (NaN, infinities) become strings.
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

// number is a number in the form of the text output.
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

// addTrace adds the file of --trace, if requested. It has the host's spans and the steps of all runs.
func (s *session) addTrace(ctx context.Context, w *files) error {
	if s.debug.trace == "" {
		return nil
	}
	for _, r := range s.runs {
		s.trace.steps(r)
	}
	return w.add(ctx, s.debug.trace, func(out io.Writer) error { return s.trace.write(out, s.backend.Name) })
}
