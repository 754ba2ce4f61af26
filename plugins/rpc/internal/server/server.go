//go:build linux || darwin || windows

package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/peakrss"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// Server is the backend's side of the protocol. The host started the process and is trusted, but server still checks
// everything it receives, so that a bug in the host cannot silently produce a wrong result.
type Server struct {
	rlxv1.UnimplementedBackendServer
	cfg   Config
	files *wire.Files

	Region *wire.Region // nil if tensors are sent in chunks
	direct bool         // whether runs on the run channel are served, too

	mu        sync.Mutex
	loaded    map[uint64]*loaded
	last      uint64 // number of the newest executable
	cancelled int64  // highest generation that was cancelled
	cancelRun context.CancelFunc
	current   int64 // generation of the current run; 0 for none

	running    sync.Mutex // held during a run, and by calls that change states
	newWeights []byte     // mapping of the inherited memory for new weights; nil before its first use
	states     map[uint64]device.State
	lastState  uint64
	peak       peakrss.Sampler
}

// maxLoaded is the largest number of programs that are loaded at a time.
const maxLoaded = 64

// loaded is a loaded program.
type loaded struct {
	prog    *program.Program
	exe     device.Executable
	weights *mapping // nil if the program has no weights or they were sent in chunks
	memory  *mapping // holds io if there is no region
	shared  bool     // whether io is in the region
	spins   bool     // whether to spin after a run of any length; see wire.ShortRun
	io      []byte   // the IO space

	newWeights []byte   // the space of the weights with replaced weights in it; nil before the first is replaced
	ownWeights *mapping // holds newWeights if they were sent in chunks

	binder   wire.Binder   // guarded by the server's running
	stats    []device.Step // step times of the last profiled run
	statsOf  int64         // generation of that run
	poisoned error         // set after a panic, which leaves the executable in an unknown state
	steps    atomic.Int64
}

// New returns a server with the files that this process inherited. It begins to send heartbeats and to serve runs on
// the run channel.
func New(cfg Config, files *wire.Files) (*Server, error) {
	s := &Server{cfg: cfg, files: files, loaded: map[uint64]*loaded{}, states: map[uint64]device.State{}}
	if files.IO != nil {
		r, err := wire.OpenRegion(files.IO)
		if err != nil {
			return nil, err
		}
		s.Region = r
		if files.Runs != nil {
			c, err := wire.OpenRunChannel(files.Runs)
			if err != nil {
				return nil, fmt.Errorf("the run channel: %w", err)
			}
			c.ServeDoorbell(r)
			s.direct = true
			go s.ServeRuns(c)
		}
		go func() {
			for n := int64(1); ; n++ {
				r.Store(wire.WordBeat, n)
				time.Sleep(cmp.Or(cfg.Beat, wire.BeatEvery))
			}
		}()
	}
	return s, nil
}

func (s *Server) Info(ctx context.Context, _ *rlxv1.InfoRequest) (*rlxv1.InfoReply, error) {
	info, err := s.cfg.Backend.Info(ctx)
	if err != nil {
		return nil, statusOf(err, nil)
	}
	r := wire.EncodeInfo(info)
	r.DirectRuns = s.direct
	return r, nil
}

func (s *Server) Load(st grpc.ClientStreamingServer[rlxv1.LoadRequest, rlxv1.LoadReply]) error {
	first, err := firstOf(st)
	if err != nil {
		return err
	}
	h := first.GetHeader()
	w := h.GetWeights()
	if w == nil {
		w = &rlxv1.Weights{} // the program has no weights
	}
	if err := s.checkHeader(h, w); err != nil {
		return err
	}
	enc, weights, err := receiveProgram(st, h, w)
	if err != nil {
		return err
	}
	l := &loaded{shared: s.Region != nil}
	if l.prog, err = s.cfg.Decode(enc); err != nil {
		// The decoder's codes are for errors of artifacts. The host has already verified this program, so host and
		// backend are different builds.
		return protocolError("load: %w", err)
	}
	l.binder.Program = l.prog
	if err := checkPlaces(l.prog, w.Size); err != nil {
		return statusOf(err, nil)
	}
	if err := s.place(l, h.IoSize, w); err != nil {
		l.unmap()
		return statusOf(err, nil)
	}
	id, err := s.start(st.Context(), l, h, weights)
	if err != nil {
		l.unmap()
		return statusOf(err, nil)
	}
	reply := &rlxv1.LoadReply{Executable: id, Memory: l.exe.Memory()}
	for _, k := range l.exe.Kernels() {
		reply.Kernels = append(reply.Kernels, &rlxv1.Kernel{Op: k.Op, Native: k.Native})
	}
	return st.SendAndClose(reply)
}

// checkHeader checks what a load request announces.
func (s *Server) checkHeader(h *rlxv1.LoadHeader, w *rlxv1.Weights) error {
	switch {
	case s.cfg.Decode == nil:
		return wire.ToStatus(diag.New(device.ErrUnsupported, "", "cannot load programs"), nil)
	case h == nil:
		return protocolError("load: the first message is not a header")
	case h.ProgramSize <= 0 || h.ProgramSize > wire.MaxProgram || len(h.ProgramSha256) != sha256.Size:
		return protocolError("load: program of %d bytes with a digest of %d", h.ProgramSize, len(h.ProgramSha256))
	case w.Size < 0 || !w.Mapped && w.Size > wire.MaxStreamed:
		return protocolError("load: weights of %d bytes", w.Size)
	case h.IoShared != (s.Region != nil):
		return protocolError("load: io_shared is %v; the backend inherited a shared region: %v", h.IoShared,
			s.Region != nil)
	case s.Region == nil && h.IoSize != 0:
		return protocolError("load: io_size is %d, but there is no shared region; want 0", h.IoSize)
	case h.Threads < 0:
		return protocolError("load: %d threads", h.Threads)
	}
	return nil
}

// receiveProgram receives the chunks that follow a header: the encoded program, then the weights unless they are
// mapped. A chunk must not exceed what was announced, and no weights may come before the end of the program.
func receiveProgram(st grpc.ClientStreamingServer[rlxv1.LoadRequest, rlxv1.LoadReply], h *rlxv1.LoadHeader,
	w *rlxv1.Weights) (enc, weights []byte, err error) {
	streamed := w.Size // bytes of weights to come
	if w.Mapped {
		streamed = 0
	}
	for int64(len(enc)) < h.ProgramSize || int64(len(weights)) < streamed {
		m, err := st.Recv()
		if errors.Is(err, io.EOF) {
			return nil, nil, protocolError("load: ended after %d bytes of program and %d of weights", len(enc),
				len(weights))
		}
		if err != nil {
			return nil, nil, err
		}
		p, c := m.GetProgram(), m.GetWeights()
		early := len(c) > 0 && int64(len(enc)) < h.ProgramSize
		if n := len(p) + len(c); n == 0 || n > wire.MaxChunk || early ||
			int64(len(p)) > h.ProgramSize-int64(len(enc)) || int64(len(c)) > streamed-int64(len(weights)) {
			return nil, nil,
				protocolError("load: a chunk of %d bytes of program and %d of weights does not fit", len(p), len(c))
		}
		if c != nil && weights == nil {
			weights = tensor.AlignedBytes(int(w.Size))[:0]
		}
		enc, weights = append(enc, p...), append(weights, c...)
	}
	if sum := sha256.Sum256(enc); !bytes.Equal(sum[:], h.ProgramSha256) {
		return nil, nil, protocolError("load: the digest of the program is not the announced one")
	}
	return enc, weights, nil
}

// firstOf returns the first message of a stream, or an error if there is none.
func firstOf[M any](st interface{ Recv() (*M, error) }) (*M, error) {
	m, err := st.Recv()
	if errors.Is(err, io.EOF) {
		return nil, protocolError("the stream ended before its header")
	}
	return m, err
}

// checkPlaces checks that every place is inside its space, because backends use the offsets without further checks.
func checkPlaces(p *program.Program, weights int64) error {
	if p.ArenaSize < 0 || p.IOSize < 0 || p.StateSize < 0 || len(p.Places) != len(p.Graph.Nodes) {
		return diag.New(code.Refused, "", "load: arena of %d bytes, io space of %d, %d places for %d nodes",
			p.ArenaSize, p.IOSize,
			len(p.Places), len(p.Graph.Nodes))
	}
	sizes := map[program.Space]int64{program.Weights: weights, program.Arena: p.ArenaSize, program.IO: p.IOSize,
		program.State: p.StateSize}
	for i, pl := range p.Places {
		if n, ok := sizes[pl.Space]; !ok || !wire.InRange(pl.Offset, pl.Size, n) {
			return diag.New(code.Refused, "", "load: %s takes %d bytes at %d of its space, which has %d",
				p.Graph.Nodes[i].Label(), pl.Size, pl.Offset, n)
		}
	}
	for i, st := range p.Steps {
		if st.Node < 0 || st.Node >= len(p.Graph.Nodes) {
			return diag.New(code.Refused, "", "load: step %d runs node %d, which does not exist", i, st.Node)
		}
	}
	return nil
}

// place maps the memory for the weights and the IO space of a program.
func (s *Server) place(l *loaded, ioSize int64, w *rlxv1.Weights) (err error) {
	if s.Region == nil {
		if l.prog.IOSize > 0 { // whole pages, so that backends can use them in place
			if l.memory, err = mapMemory(l.prog.IOSize); err != nil {
				return diag.New(device.ErrMemory, "", "load: io space of %d bytes: %w", l.prog.IOSize, err)
			}
			l.io = l.memory.data
		}
	} else {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.Region.Data == nil {
			if ioSize < 0 {
				return diag.New(code.Refused, "", "load: io space of %d bytes", ioSize)
			}
			if err := s.Region.MapData(ioSize); err != nil {
				return diag.New(code.Refused, "", "load: %w", err)
			}
		}
		if ioSize != int64(len(s.Region.Data)) || l.prog.IOSize > ioSize {
			return diag.New(code.Refused, "", "load: shared region of %d bytes, announced %d; the program needs %d",
				len(s.Region.Data), ioSize, l.prog.IOSize)
		}
		l.io = s.Region.Data[:l.prog.IOSize:l.prog.IOSize]
	}
	if w.Mapped && w.Size > 0 {
		if s.files.Artifact == nil {
			return diag.New(code.Refused, "", "load: the weights are in an artifact, but none was inherited")
		}
		if l.weights, err = mapFile(s.files.Artifact, w.Offset, w.Size); errors.Is(err, errOutside) {
			return diag.New(code.Refused, "", "load: the weights are %w", err)
		} else if err != nil {
			return diag.New(device.ErrMemory, "", "mapping the weights: %w", err)
		}
	}
	return nil
}

// unmap frees the memory of a program that the backend no longer uses.
func (l *loaded) unmap() {
	l.weights.close()
	l.memory.close()
	l.ownWeights.close()
	l.io, l.newWeights = nil, nil
}

// start loads the program in the backend and returns the number of the executable.
func (s *Server) start(ctx context.Context, l *loaded, h *rlxv1.LoadHeader, weights []byte) (uint64, error) {
	s.mu.Lock()
	full := len(s.loaded) >= maxLoaded
	s.mu.Unlock()
	if full {
		return 0, diag.New(device.ErrMemory, "", "%d programs are loaded; unload one", maxLoaded)
	}
	if l.weights != nil {
		weights = l.weights.data
	}
	if n := l.prog.WeightsExtent(); n > int64(len(weights)) {
		return 0, diag.New(code.Refused, "", "load: the program needs %d bytes of weights; the host provides %d", n,
			len(weights))
	}
	info, err := s.cfg.Backend.Info(ctx)
	if err != nil {
		return 0, err
	}
	// a backend that does not know precisions would silently use its own
	if err := info.CheckPrecision(h.Precision); err != nil {
		return 0, err
	}
	l.spins = wire.Accelerated(info, h.Device)
	exe, err := s.cfg.Backend.Load(
		ctx, device.Load{Program: l.prog, Weights: weights, Mapped: l.weights != nil, IO: l.io, Device: h.Device,
			Threads:   int(h.Threads),
			Precision: h.Precision})
	if err != nil {
		return 0, err
	}
	l.exe = exe
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	s.loaded[s.last] = l
	return s.last, nil
}

func (s *Server) find(id uint64) (*loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.loaded[id]; l != nil {
		return l, nil
	}
	return nil, protocolError("executable %d is not loaded", id)
}

// Cancel cancels a run. It also works for a run that has not arrived yet, because calls may arrive out of order.
func (s *Server) Cancel(_ context.Context, r *rlxv1.CancelRequest) (*rlxv1.CancelReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = max(s.cancelled, r.Generation)
	if s.current != 0 && s.current <= s.cancelled {
		s.cancelRun()
	}
	return &rlxv1.CancelReply{}, nil
}

func (s *Server) Stats(r *rlxv1.StatsRequest, st grpc.ServerStreamingServer[rlxv1.StatsReply]) error {
	if !s.running.TryLock() {
		return protocolError("stats: a run is in progress")
	}
	defer s.running.Unlock()
	l, err := s.find(r.Executable)
	if err != nil {
		return err
	}
	if l.statsOf != r.Generation || r.Generation <= 0 {
		return protocolError("stats: run %d was not profiled, or is not the last one", r.Generation)
	}
	for i := 0; i < len(l.stats); i += wire.MaxStepsPerReply {
		m := &rlxv1.StatsReply{}
		for _, t := range l.stats[i:min(i+wire.MaxStepsPerReply, len(l.stats))] {
			m.Steps = append(m.Steps, &rlxv1.Step{Node: int32(t.Node), StartNs: int64(t.Start), TimeNs: int64(t.Time),
				Flops: t.FLOPs})
		}
		if err := st.Send(m); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) Unload(_ context.Context, r *rlxv1.UnloadRequest) (*rlxv1.UnloadReply, error) {
	if !s.running.TryLock() {
		return nil, protocolError("unload: a run is in progress")
	}
	defer s.running.Unlock()
	s.mu.Lock()
	l := s.loaded[r.Executable]
	delete(s.loaded, r.Executable)
	s.mu.Unlock()
	if l == nil {
		return nil, protocolError("executable %d is not loaded", r.Executable)
	}
	err := l.exe.Close()
	l.unmap()
	if err != nil {
		return nil, statusOf(fmt.Errorf("unload: %w", err), nil)
	}
	return &rlxv1.UnloadReply{}, nil
}
