package main

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	_ "github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/task"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/plugins/cpu/backend"
)

// tinyTask is a model with the task "segment" whose answers can be worked out by hand. encode keeps the red plane of an 8x8
// image. decode's masks are that plane (mask 0), its negative (1), all ones (2) and all minus ones (3), plus the number of
// points added to nothing; iou is 0.1, 0.7, 0.9, 0.3.
const tinyEncode = `graph encode
image = input : f32[1,3,8,8]
r = narrow image {axis=1, len=1} : f32[1,1,8,8]
e = reshape r : f32[1,1,8,8]
return embeddings=e
`

const tinyDecode = `graph decode
sym N = 1..5
embeddings = input : f32[1,1,8,8]
points = input : f32[1,N,2]
labels = input : i32[1,N]
n = neg embeddings : f32[1,1,8,8]
one = const {value=1} : f32[1,1,8,8]
minus = neg one : f32[1,1,8,8]
m = concat embeddings, n, one, minus {axis=1} : f32[1,4,8,8]
q0 = const {value=0.1} : f32[1,1]
q1 = const {value=0.7} : f32[1,1]
q2 = const {value=0.9} : f32[1,1]
q3 = const {value=0.3} : f32[1,1]
q = concat q0, q1, q2, q3 {axis=1} : f32[1,4]
return low_res_masks=m, iou=q
`

// programOf compiles a graph without passes, for a target.
func programOf(t testing.TB, text, target string) *program.Program {
	t.Helper()
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p, _, err := sched.Build(g, sched.Options{Target: target})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func tinyModel(t testing.TB) *model {
	seg := task.NewSegment(8, 5)
	return &model{path: "tiny.rlx", segment: &seg, programs: []*program.Program{programOf(t, tinyEncode, "cpu"), programOf(t, tinyDecode, "cpu")}}
}

// inProcess is an executable without a process of its own.
type inProcess struct {
	device.Executable
	p *program.Program
}

func (e inProcess) RunTensors(ctx context.Context, r device.Run, in [][]byte) ([][]byte, device.Stats, error) {
	b, err := e.p.Bind(r.Syms)
	if err != nil {
		return nil, device.Stats{}, err
	}
	r.IO = tensor.AlignedBytes(int(e.p.IOSize))
	for i, o := range b.Inputs {
		copy(r.IO[o.Offset:], in[i])
	}
	stats, err := e.Run(ctx, r)
	var out [][]byte
	for _, o := range b.Outputs {
		out = append(out, r.IO[o.Offset:o.Offset+o.Bytes])
	}
	return out, stats, err
}

// hostOf runs a model on the cpu backend inside this process.
func hostOf(t testing.TB, m *model, debug debugFlags) *host {
	t.Helper()
	b := backend.Backend{}
	info, err := b.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := &host{env: &cli.Env{Program: "rlxrun", Stdout: io.Discard, Stderr: io.Discard}, model: m, backend: "cpu", info: info, debug: debug,
		unchanged: func() error { return nil }, peakRSS: func() int64 { return 0 }}
	h.load = func(ctx context.Context, p *program.Program) (executable, error) {
		e, err := b.Load(ctx, device.Load{Program: p, Threads: 1})
		return inProcess{e, p}, err
	}
	if err := h.chooseDevice(""); err != nil {
		t.Fatal(err)
	}
	return h
}

func wantError(t *testing.T, what string, err error, code error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error; want %v", what, code)
		return
	}
	if !isCode(err, code) {
		t.Errorf("%s: %v; want %v", what, err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; want it to say %q", what, err, text)
		}
	}
}
