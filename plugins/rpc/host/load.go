package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// Weights locates the weights in Options.Artifact.
type Weights struct {
	Offset, Size int64    // bytes; Size is 0 if the program has no weights
	Root         [32]byte // the artifact's root digest, verified by the host
}

// LoadOptions describe a program to load with weights from the artifact.
type LoadOptions struct {
	Program *program.Program
	Weights Weights
	Device  string // device.Device.ID; if empty, the backend chooses
	Threads int    // 0 means all that the process may use

	Precision string // see device.Load.Precision; empty means f32
}

// LoadMapped loads a verified program. The backend maps its weights from the artifact.
func (s *Session) LoadMapped(ctx context.Context, o LoadOptions) (*Executable, error) {
	w := &rlxv1.Weights{}
	if o.Weights.Size > 0 {
		if s.opts.Artifact == nil {
			panic("BUG: LoadMapped with weights, but the session was started without an artifact")
		}
		w = &rlxv1.Weights{Size: o.Weights.Size, Offset: o.Weights.Offset, Mapped: true, Root: o.Weights.Root[:]}
	}
	return s.load(ctx, o, w, nil)
}

// Load implements device.Backend. It sends the weights in chunks.
func (s *Session) Load(ctx context.Context, l device.Load) (device.Executable, error) {
	if int64(len(l.Weights)) > wire.MaxStreamed {
		return nil,
			diag.New(device.ErrMemory, s.name, "weights of %d bytes are too large to send in chunks; at most %d",
				len(l.Weights), int64(wire.MaxStreamed))
	}
	e, err := s.load(ctx, LoadOptions{Program: l.Program, Device: l.Device, Threads: l.Threads, Precision: l.Precision},
		&rlxv1.Weights{Size: int64(len(l.Weights))}, l.Weights)
	if err != nil {
		return nil, err
	}
	return e, nil
}

// load sends a program. w describes the weights to the backend. If they are not mapped, load sends the bytes of weights
// in chunks.
func (s *Session) load(ctx context.Context, o LoadOptions, w *rlxv1.Weights, weights []byte) (*Executable, error) {
	p := o.Program
	s.loadMu.Lock()
	defer s.loadMu.Unlock()
	if err := s.Err(); err != nil {
		return nil, err
	}
	// A backend of an earlier version would ignore the field.
	if err := s.info.CheckPrecision(o.Precision); err != nil {
		return nil, err
	}
	if s.opts.Encode == nil {
		panic("BUG: Load in a session that was started without Encode")
	}
	enc, err := s.opts.Encode(p)
	if err != nil {
		return nil, fmt.Errorf("encoding %s for %s: %w", p.Method, s.name, err)
	}
	if len(enc) > wire.MaxProgram {
		return nil, diag.New(device.ErrUnsupported, s.name, "program %s has %d bytes; at most %d", p.Method, len(enc),
			wire.MaxProgram)
	}
	if err := s.sizeRegion(p); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(enc)
	head := &rlxv1.LoadHeader{ProgramSize: int64(len(enc)), ProgramSha256: sum[:], Weights: w, IoSize: s.ioSize(),
		IoShared: s.region != nil, Device: o.Device, Threads: int32(o.Threads), Precision: o.Precision}
	var reply *rlxv1.LoadReply
	what := func() string { return "while it loaded " + p.Method }
	err = s.call(ctx, s.opts.Timeouts.Load, what, func(ctx context.Context) (err error) {
		stream, err := s.api.Load(ctx)
		if err != nil {
			return err
		}
		err = stream.Send(&rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Header{Header: head}})
		for c := range slices.Chunk(enc, wire.MaxChunk) {
			if err == nil {
				err = stream.Send(&rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Program{Program: c}})
			}
		}
		for c := range slices.Chunk(weights, wire.MaxChunk) {
			if err == nil {
				err = stream.Send(&rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Weights{Weights: c}})
			}
		}
		if err != nil && !errors.Is(err, io.EOF) { // after io.EOF, CloseAndRecv returns the reason
			return err
		}
		reply, err = stream.CloseAndRecv()
		return err
	})
	if err != nil {
		return nil, err
	}
	e := &Executable{session: s, prog: p, id: reply.Executable, stores: p.Updates(), binder: wire.Binder{Program: p},
		mapped: w.Mapped && s.newWeights != nil, spins: wire.Spare(s.info, o.Device, o.Threads),
		constants: constants{is: p.Constant()}}
	if e.id == 0 {
		return nil, s.broke(what(), "gave %s the executable number 0, which is reserved", p.Method)
	}
	if e.memory = reply.Memory; e.memory < 0 {
		return nil, s.broke(what(), "reported that a run needs %d bytes of memory", e.memory)
	}
	if len(reply.Kernels) > wire.MaxListed {
		return nil, s.broke(what(), "listed %d kernels; at most %d", len(reply.Kernels), wire.MaxListed)
	}
	for _, k := range reply.Kernels {
		e.kernels = append(e.kernels, device.Kernel{Op: wire.Clean(k.Op), Native: k.Native})
	}
	return e, nil
}

// broke stops the backend and returns the error for an answer that violates the protocol.
func (s *Session) broke(where, format string, args ...any) error {
	e := lost(code.Protocol, s.name, format, args...)
	s.fail(e)
	return s.during(e, func() string { return where })
}

// sizeRegion sets the size of the shared region unless Options.IOSize has set it, and checks that the program fits.
func (s *Session) sizeRegion(p *program.Program) error {
	if s.region == nil {
		return nil
	}
	if s.region.Data == nil {
		if err := s.region.Grow(p.IOSize); err != nil {
			return diag.New(device.ErrMemory, s.name, "shared region of %d bytes: %w", p.IOSize, err)
		}
	}
	if p.IOSize > int64(len(s.region.Data)) {
		panic(fmt.Sprintf("BUG: program %s needs %d bytes of shared region; the session was started with %d",
			p.Method, p.IOSize, len(s.region.Data)))
	}
	return nil
}

func (s *Session) ioSize() int64 {
	if s.region == nil {
		return 0
	}
	return int64(len(s.region.Data))
}

// fetchInfo requests the backend's description and checks it.
func (s *Session) fetchInfo(ctx context.Context) (device.Info, error) {
	var reply *rlxv1.InfoReply
	what := func() string { return "while it described itself" }
	err := s.call(ctx, s.opts.Timeouts.Info, what, func(ctx context.Context) (err error) {
		reply, err = s.api.Info(ctx, &rlxv1.InfoRequest{})
		return err
	})
	if err != nil {
		return device.Info{}, err
	}
	s.directRuns = reply.GetDirectRuns() && s.direct != nil
	if s.directRuns && s.region.HasDoorbell() {
		s.direct.UseDoorbell(s.region)
	}
	info, err := wire.DecodeInfo(reply)
	if err != nil {
		return device.Info{}, s.broke(what(), "%w", err)
	}
	if own, ok := strings.CutPrefix(filepath.Base(s.opts.Path), "rlx-backend-"); ok &&
		strings.TrimSuffix(own, ".exe") != info.Name {
		return device.Info{},
			s.broke(what(), "is called %s in its description, but its executable is %s; want rlx-backend-%[1]s",
				info.Name, wire.Clean(filepath.Base(s.opts.Path)))
	}
	return info, nil
}
