//go:build linux

package host

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/golden"
	"github.com/rlx-go/rlx/plugins/rpc/internal/rpctest"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

const transcriptPath = "../../../spec/testdata/session.txt"

// demoProgram computes y = -w[idx] for N indices into three rows of two numbers.
func demoProgram(t testing.TB) *program.Program {
	t.Helper()
	g := ir.NewGraph("rows", ir.Sym{Name: "N", Min: 1, Max: 4})
	rows := op.Gather(op.Param(g, "w", ir.MustType("f32[3,2]")), op.Input(g, "idx", ir.MustType("i32[N]")), 0).Named(
		"rows")
	g.Return("y", op.Neg(rows).Named("y"))
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	p, _, err := sched.Build(
		g, sched.Options{Method: "rows", Target: "demo", Weights: func(string) (int64, bool) { return 0, true }})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var demoWeights = []float32{1, 2, 11, 12, 21, 22}

// Marks of the transcript's records.
const (
	markHost    = ">" // a message of the host
	markBackend = "<" // a message of the backend
	markFailed  = "!" // the status of a failed call, a google.rpc.Status
	markHostMem = "W" // bytes that the host wrote to the region; all other bytes of the data are 0
	markBackMem = "R" // bytes that the backend wrote to the region
	markFile    = "F" // bytes of the artifact
	markWeights = "N" // bytes that the host wrote to the memory of new weights
)

// A record is one entry of a transcript.
type record struct {
	mark string
	name string // call and message, or the offset of bytes
	data []byte
	note string // a comment, not read
}

// call returns the first word of a message's name.
func (r record) call() string { return strings.Fields(r.name)[0] }

func printRecords(list []record) string {
	var b strings.Builder
	for _, r := range list {
		fmt.Fprintf(&b, "\n%s %s %d\n", r.mark, r.name, len(r.data))
		for line := range strings.Lines(r.note) {
			fmt.Fprintf(&b, "# %s\n", strings.TrimRight(line, "\n"))
		}
		for c := range slices.Chunk(r.data, 32) {
			fmt.Fprintf(&b, "  % x\n", c)
		}
	}
	return b.String()
}

// parseRecords reads what printRecords wrote, of the part after the line "== part".
func parseRecords(text, part string) ([]record, error) {
	_, text, ok := strings.Cut(text, "\n== "+part+"\n")
	if !ok {
		return nil, fmt.Errorf("no part %q", part)
	}
	text, _, _ = strings.Cut(text, "\n== ")
	var list []record
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if body, ok := strings.CutPrefix(line, "  "); ok && len(list) > 0 {
			b, err := hex.DecodeString(strings.ReplaceAll(body, " ", ""))
			if err != nil {
				return nil, err
			}
			list[len(list)-1].data = append(list[len(list)-1].data, b...)
		} else if line != "" && line[0] != '#' {
			f := strings.Fields(line)
			list = append(list, record{mark: f[0], name: strings.Join(f[1:len(f)-1], " ")})
		}
	}
	return list, nil
}

// recorder collects the records of a session.
type recorder struct {
	mu     sync.Mutex
	s      *Session
	list   []record
	header *rlxv1.RunHeader // of the last run
}

// stable returns a copy of m without what differs from run to run: times and memory.
func stable(m proto.Message) proto.Message {
	m = proto.Clone(m)
	var done *rlxv1.Done
	switch m := m.(type) {
	case *rlxv1.RunReply:
		done = m.GetDone()
	case *rlxv1.RunResult:
		done = m.GetDone()
	case *rlxv1.StatsReply:
		for i, s := range m.Steps {
			s.StartNs, s.TimeNs = int64(400*i), 300
		}
	}
	if done != nil {
		done.TotalNs, done.PeakRss = 1000, 1<<20
	}
	return m
}

func encoded(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

// add records an event. What a side wrote to the region precedes its message.
func (r *recorder) add(e event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	call, m := e.call, e.msg
	if e.end || call == "Shutdown" {
		return
	}
	rec := record{mark: markBackend}
	if e.sent {
		rec.mark = markHost
	}
	if e.err != nil {
		st, _ := status.FromError(e.err)
		rec.mark, m, rec.note = markFailed, st.Proto(), failureText(e.err)
	}
	if call == directCall {
		call = "runs"
		if d, ok := m.(*rlxv1.Done); ok {
			m = &rlxv1.RunResult{Done: d}
		} else if rec.mark == markFailed {
			rec.mark, m = markBackend, &rlxv1.RunResult{Status: encoded(m)}
		}
	}
	m = stable(m)
	if rec.note == "" {
		rec.note = textOf(m)
	}
	rec.name, rec.data = call+" "+string(m.ProtoReflect().Descriptor().Name()), encoded(m)
	if w, ok := m.(*rlxv1.SetWeightsRequest); ok && w.GetHeader().GetMapped() {
		for _, x := range w.GetHeader().Params {
			r.list = append(r.list, record{mark: markWeights, name: fmt.Sprint(x.Offset),
				data: bytes.Clone(r.s.newWeights.Data[x.Offset:][:x.Size]), note: "new weights"})
		}
	}
	switch h := headerOf(m); {
	case h != nil:
		r.header = h
		for i, x := range h.Inputs {
			fed := slices.ContainsFunc(h.Feeds, func(t *rlxv1.Transfer) bool { return int(t.Tensor) == i })
			r.memory(markHostMem, x.Offset, x.Size, !fed, fmt.Sprintf("input %d", i))
		}
	case rec.mark == markFailed || strings.Contains(rec.note, "{done: {") && call != "Load":
		r.words()
		for i, x := range r.header.GetOutputs() {
			wanted := rec.mark != markFailed && !slices.Contains(r.header.Unwanted, int32(i)) &&
				!strings.HasPrefix(rec.note, "status")
			r.memory(markBackMem, x.Offset, x.Size, wanted, fmt.Sprintf("output %d", i))
		}
	case strings.HasPrefix(rec.note, "{progress: "): // how many there are depends on the time, so keep the last one
		if n := len(r.list) - 1; strings.HasPrefix(r.list[n].note, "{progress: ") {
			r.list = r.list[:n]
		}
	}
	r.list = append(r.list, rec)
}

// headerOf returns the header of a run in a message, or nil.
func headerOf(m proto.Message) *rlxv1.RunHeader {
	switch m := m.(type) {
	case *rlxv1.RunHeader:
		return m
	case *rlxv1.RunRequest:
		return m.GetHeader()
	}
	return nil
}

// memory records bytes of the region's data.
func (r *recorder) memory(mark string, offset, size int64, written bool, what string) {
	if r.s.region == nil || !written {
		return
	}
	r.list = append(
		r.list, record{mark: mark, name: fmt.Sprint(wire.RegionHeader + offset),
			data: bytes.Clone(r.s.region.Data[offset:][:size]), note: what})
}

// words records the words of the header that the last run has set. The heartbeat is left out.
func (r *recorder) words() {
	if r.s.region == nil {
		return
	}
	const at = 8 * wire.WordGeneration
	note := fmt.Sprintf("generation %d, steps %d", r.s.region.Load(wire.WordGeneration),
		r.s.region.Load(wire.WordSteps))
	r.list = append(
		r.list, record{mark: markBackMem, name: fmt.Sprint(at), data: bytes.Clone(r.s.region.Header[at:][:16]),
			note: note})
}

// demoOptions are options for a backend in one of the modes demo and replay.
func demoOptions(t *testing.T, mode string, chunks bool) Options {
	t.Helper()
	opts, _ := testOptions(t, mode)
	file := filepath.Join(opts.TempDir, "artifact")
	if err := os.WriteFile(file, append(make([]byte, demoWeightsAt), tensor.Bytes(demoWeights)...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	path, err := filepath.Abs(transcriptPath)
	if err != nil {
		t.Fatal(err)
	}
	opts.Name, opts.Artifact, opts.Encode, opts.NoSharedMemory = "demo", f, format.EncodeProgram, chunks
	opts.Env = append(opts.Env, "RLX_TEST_TRANSCRIPT="+path)
	opts.Sandbox = SandboxOff // the replay reads the transcript
	return opts
}

const demoWeightsAt = 65536

// playDemo makes all calls of a session and checks the results.
func playDemo(t *testing.T, s *Session) {
	t.Helper()
	ctx := t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	want := func(what string, got []byte, y ...float32) {
		t.Helper()
		if !bytes.Equal(got, tensor.Bytes(y)) {
			t.Errorf("%s: %v; want %v", what, tensor.View[float32](got), y)
		}
	}
	p := demoProgram(t)
	e, err := s.LoadMapped(
		ctx, LoadOptions{Program: p,
			Weights: Weights{Offset: demoWeightsAt, Size: int64(4 * len(demoWeights)), Root: [32]byte{1, 2, 3}}})
	must("load", err)
	run := func(r device.Run, idx ...int32) ([]byte, device.Stats, error) {
		r.Syms = map[string]int64{"N": int64(len(idx))}
		out, st, err := e.RunTensors(ctx, r, [][]byte{tensor.Bytes(idx)})
		if err != nil {
			return nil, st, err
		}
		return out[0], st, nil
	}
	rows := p.Graph.Nodes[p.Steps[0].Node]
	opts := device.RunOptions{Profile: true, Dump: []int{rows.ID},
		Observe: func(node int, shape []int, data []byte) error {
			want("dump", data, 21, 22, 1, 2)
			return nil
		}}
	y, st, err := run(device.Run{Opts: opts}, 2, 0)
	must("run with a profile and a dump", err)
	want("y", y, -21, -22, -1, -2)
	if len(st.Steps) != 2 {
		t.Errorf("%d step times; want 2", len(st.Steps))
	}
	y, _, err = run(device.Run{}, 1, 1, 2)
	must("run", err)
	want("y", y, -11, -12, -11, -12, -21, -22)
	_, _, err = run(device.Run{}, 0, 7)
	wantCode(t, err, device.ErrInput, "step 1 of 2 (gather rows)", "index 7 at position 1 is out of range 0 to 2")
	state, err := s.MakeState(ctx, "", 512)
	must("make a state", err)
	must("write to it", state.Write(ctx, 0, tensor.Bytes([]int32{1})))
	_, _, err = run(
		device.Run{Feeds: []device.Transfer{{State: state}}, Keeps: []device.Transfer{{State: state, Offset: 256}},
			Outputs: []bool{false}}, 0)
	must("run that reads its input from a state and keeps its output there", err)
	kept := make([]byte, 8)
	must("read it", state.Read(ctx, 256, kept))
	want("kept", kept, -11, -12)
	must("clear it", state.Clear(ctx))
	other, err := s.MakeState(ctx, "", 512)
	must("make another state", err)
	must("copy the first", other.Copy(ctx, state))
	must("drop it", other.Close())
	must("drop the first", state.Close())
	// The artifact's weights are set as new ones are.
	for _, sign := range []float32{-1, 1} {
		weights := slices.Clone(demoWeights)
		for i := range weights {
			weights[i] *= sign
		}
		data := tensor.Bytes(weights)
		must("set weights", s.SetWeights(ctx, int64(len(data)), []NewWeight{{Data: data}}, []*Executable{e}))
		y, _, err = run(device.Run{}, 1)
		must("run with other weights", err)
		want("y", y, -sign*11, -sign*12)
	}
	late, cancel := context.WithTimeout(ctx, rpctest.HangGuard)
	defer cancel()
	_, err = s.api.Cancel(late, &rlxv1.CancelRequest{Generation: 6})
	must("cancel a run that has ended", err)
	must("unload", e.Close())
	again, err := s.Load(ctx, device.Load{Program: p, Weights: tensor.Bytes(demoWeights)})
	must("load with the weights in chunks", err)
	must("unload", again.Close())
	must("close", s.Close())
}

// recordDemo returns the records of a session with the demo backend.
func recordDemo(t *testing.T, chunks bool) []record {
	t.Helper()
	opts := demoOptions(t, "demo", chunks)
	r := &recorder{}
	opts.tap = func(s *Session, e event) {
		r.s = s
		r.add(e)
	}
	s := start(t, opts)
	if !chunks {
		first := record{mark: markHostMem, name: "0", data: bytes.Clone(s.region.Header[:16]),
			note: "magic, layout version 1, header size 65536"}
		r.list = append([]record{first}, r.list...)
	}
	playDemo(t, s)
	weights := record{mark: markFile, name: fmt.Sprint(demoWeightsAt), data: tensor.Bytes(demoWeights),
		note: "the weights: w = [[1 2] [11 12] [21 22]], f32"}
	return append([]record{weights}, r.list...)
}

// TestTranscriptIsComplete checks that the transcript has each call and each message of the protocol, and each choice
// of a message that has several.
func TestTranscriptIsComplete(t *testing.T) {
	seen := map[string]bool{}
	var look func(m protoreflect.Message)
	look = func(m protoreflect.Message) {
		seen[string(m.Descriptor().FullName())] = true
		for i := range m.Descriptor().Oneofs().Len() {
			if f := m.WhichOneof(m.Descriptor().Oneofs().Get(i)); f != nil {
				seen[string(f.FullName())] = true
			}
		}
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.IsMap() || f.Message() == nil:
			case f.IsList():
				for i := range v.List().Len() {
					look(v.List().Get(i).Message())
				}
			default:
				look(v.Message())
			}
			return true
		})
	}
	lookStatus := func(b []byte) {
		st := &spb.Status{}
		if err := proto.Unmarshal(b, st); err != nil {
			t.Fatal(err)
		}
		for _, d := range st.Details {
			if m, err := d.UnmarshalNew(); err == nil {
				look(m.ProtoReflect())
			}
		}
	}
	for _, shared := range []bool{false, true} {
		list, err := readTranscript(transcriptPath, shared)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			switch call, kind, _ := strings.Cut(r.name, " "); r.mark {
			case markFailed:
				lookStatus(r.data)
			case markHost, markBackend:
				seen[call] = true
				name := protoreflect.FullName("rlx.v1." + kind)
				types, err := protoregistry.GlobalTypes.FindMessageByName(name)
				if err != nil {
					t.Fatal(err)
				}
				m := types.New()
				if err := proto.Unmarshal(r.data, m.Interface()); err != nil {
					t.Fatal(err)
				}
				look(m)
				if failed, ok := m.Interface().(*rlxv1.RunResult); ok {
					lookStatus(failed.Status)
				}
			}
		}
	}
	file := rlxv1.File_rlx_v1_backend_proto
	for i := range file.Services().Len() {
		for k := range file.Services().Get(i).Methods().Len() {
			if name := string(file.Services().Get(i).Methods().Get(k).Name()); !seen[name] {
				t.Errorf("no call %s", name)
			}
		}
	}
	for i := range file.Messages().Len() {
		m := file.Messages().Get(i)
		if !seen[string(m.FullName())] {
			t.Errorf("no message %s", m.Name())
		}
		for k := range m.Oneofs().Len() {
			if m.Oneofs().Get(k).IsSynthetic() { // an optional field
				continue
			}
			for j := range m.Oneofs().Get(k).Fields().Len() {
				if f := m.Oneofs().Get(k).Fields().Get(j); !seen[string(f.FullName())] {
					t.Errorf("no %s in a message %s", f.Name(), m.Name())
				}
			}
		}
	}
}

// TestTranscript checks that the transcript in spec/testdata is that of the host and a backend of this package.
func TestTranscript(t *testing.T) {
	p, graph := demoProgram(t), ""
	for line := range strings.Lines(p.Graph.String()) {
		graph += "#     " + line
	}
	graph += "#\n# Places, by node:\n#\n"
	for i, n := range p.Graph.Nodes {
		graph += fmt.Sprintf("#     %d %s: space %v, offset %d, at most %d bytes\n", i, n.Label(), p.Places[i].Space,
			p.Places[i].Offset, p.Places[i].Size)
	}
	text := strings.Replace(transcriptHead, "GRAPH", graph, 1) + "\n== shared memory\n" +
		printRecords(recordDemo(t, false)) + "\n== chunks\n" + printRecords(recordDemo(t, true))
	golden.Text(t, transcriptPath, text)
}

const transcriptHead = `# The messages of two sessions: with the shared region, and without it (chunks). spec/protocol.md explains the calls.
#
# The program, method "rows" for the target "demo":
#
GRAPH#
# A record is a line with a mark, a name and a number of bytes, followed by comments and by the bytes in hex, 32 on a line.
#
#     > CALL MESSAGE   a message of the host, encoded by protobuf. The call "runs" is the descriptor: 4 bytes with the length precede the message
#     < CALL MESSAGE   a message of the backend
#     ! CALL STATUS    the call fails; the bytes of the trailer grpc-status-details-bin
#     W OFFSET         the host has written these bytes to the shared region, before its next message
#     R OFFSET         the backend has written these bytes to the region, before its next message. The heartbeat (offset 64) is not shown
#     F OFFSET         bytes of the artifact
#     N OFFSET         the host has written these bytes to the memory of new weights, the descriptor "weights"
#
# Comments show each message with its fields; those with default values are left out, and long bytes are shortened. In a call the host's messages
# come first; all streams then end. Three things differ from run to run and are set to fixed values here: total_ns and peak_rss of Done, and the times
# in StatsReply. Of several progress messages in a row only the last is shown. Handshake, TLS and Shutdown are not shown.
#
# Tests of plugins/rpc make this file from a session, replay its backend at a real host and its host at a real backend.
`
