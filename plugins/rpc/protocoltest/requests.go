//go:build linux || darwin || windows

package protocoltest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/plugins/rpc/host"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// maker makes a request and waits for the first result of the call.
type maker = func(ctx context.Context, s *session, e *executable, b *wire.Binding) error

// loading returns a maker of a Load of a program with weights that are sent. spoil changes the header, parts follow it.
func (b *behaviour) loading(p *program.Program, weights []byte, spoil func(h *rlxv1.LoadHeader),
	parts ...*rlxv1.LoadRequest) maker {
	return func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
		if p == nil {
			return ErrNotServed
		}
		enc, err := b.opts.Encode(p)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(enc)
		h := &rlxv1.LoadHeader{ProgramSize: int64(len(enc)), ProgramSha256: sum[:],
			Weights: &rlxv1.Weights{Size: int64(len(weights))}, IoSize: s.ioSize(), IoShared: s.Region != nil}
		spoil(h)
		st, err := s.api.Load(ctx)
		if err != nil {
			return err
		}
		messages := []*rlxv1.LoadRequest{{Part: &rlxv1.LoadRequest_Header{Header: h}}}
		if h.ProgramSize == 0 { // no header at all
			messages = nil
		}
		if parts == nil {
			for c := range slices.Chunk(enc, wire.MaxChunk) {
				messages = append(messages, &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Program{Program: c}})
			}
			for c := range slices.Chunk(weights[:min(int64(len(weights)), max(h.Weights.Size, 0))], wire.MaxChunk) {
				if !h.Weights.Mapped {
					messages = append(messages, &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Weights{Weights: c}})
				}
			}
		}
		for _, m := range append(messages, parts...) {
			if st.Send(m) != nil {
				break // CloseAndRecv returns the reason
			}
		}
		_, err = st.CloseAndRecv()
		return err
	}
}

// setting returns a maker of a SetWeights of a program whose weights were sent. spoil changes the header, which names
// the first param.
func setting(x *Sample, spoil func(h *rlxv1.SetWeightsHeader)) maker {
	return func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
		if x.Param == nil {
			return ErrNotServed
		}
		if s.param == nil {
			e, err := s.load(ctx, x.Param, x.ParamWeights)
			if err != nil {
				return err
			}
			s.param = e
		}
		e := s.param
		at := x.Param.Places[x.Param.Graph.Params()[0].ID]
		h := &rlxv1.SetWeightsHeader{Executable: e.ID(), Params: []*rlxv1.Range{{Offset: at.Offset, Size: at.Size}}}
		spoil(h)
		return setWeights(ctx, s, h)
	}
}

// setWeights sends a SetWeights with zeros for all params of the header.
func setWeights(ctx context.Context, s *session, h *rlxv1.SetWeightsHeader) error {
	if s.CheckSetsWeights() != nil {
		return ErrNotServed
	}
	st, err := s.api.SetWeights(ctx)
	if err != nil {
		return err
	}
	messages := []*rlxv1.SetWeightsRequest{{Part: &rlxv1.SetWeightsRequest_Header{Header: h}}}
	for _, r := range h.Params {
		data := make([]byte, min(r.Size, wire.MaxChunk))
		messages = append(messages, &rlxv1.SetWeightsRequest{Part: &rlxv1.SetWeightsRequest_Data{Data: data}})
	}
	for _, m := range messages {
		if st.Send(m) != nil {
			break // CloseAndRecv returns the reason
		}
	}
	_, err = st.CloseAndRecv()
	return err
}

// running returns a maker of a Run of the loaded program with inputs of zeros. spoil changes the header.
func running(spoil func(h *rlxv1.RunHeader)) maker {
	return func(ctx context.Context, s *session, e *executable, b *wire.Binding) error {
		_, err := runWith(ctx, s, e, b, spoil)
		return err
	}
}

// sample returns the sample, and a function that returns a maker of a Load of its program. Without a sample, requests
// are listed for their names only.
func (b *behaviour) sample() (
	x *Sample, load func(spoil func(h *rlxv1.LoadHeader), parts ...*rlxv1.LoadRequest) maker) {
	if x = b.x; x == nil {
		x = &Sample{}
	}
	return x, func(spoil func(h *rlxv1.LoadHeader), parts ...*rlxv1.LoadRequest) maker {
		return b.loading(x.Program, x.Weights, spoil, parts...)
	}
}

// missing is a number that no executable and no state has.
const missing = 1 << 40

// wrong returns the invalid requests.
func (b *behaviour) wrong() []wrongRequest {
	return slices.Concat([]wrongRequest{
		{"unknown-method", "", false, func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
			return s.Conn.Invoke(ctx, wire.ServiceMethods+"Nothing", &emptypb.Empty{}, &emptypb.Empty{})
		}},
	}, b.wrongLoads(), b.wrongWeights(), b.wrongRuns(), wrongCalls(), wrongStates())
}

// wrongLoads returns requests to load with headers, chunks or places that do not fit.
func (b *behaviour) wrongLoads() []wrongRequest {
	x, load := b.sample()
	whole := &rlxv1.LoadRequest{Part: &rlxv1.LoadRequest_Program{Program: make([]byte, 64)}}
	outside := func(spoil func(p *program.Program, output *program.Place)) maker {
		return b.loading(misplaced(x.Program, spoil), x.Weights, func(*rlxv1.LoadHeader) {})
	}
	return []wrongRequest{
		{"load-without-header", code.Refused, true, load(func(h *rlxv1.LoadHeader) { h.ProgramSize = 0 }, whole)},
		{"load-digest", code.Refused, true,
			load(func(h *rlxv1.LoadHeader) { h.ProgramSha256 = make([]byte, sha256.Size) })},
		{"load-short", code.Refused, true, load(func(h *rlxv1.LoadHeader) { h.ProgramSize++ })},
		{"load-long", code.Refused, true, load(func(h *rlxv1.LoadHeader) { h.ProgramSize-- })},
		{"load-io-size", code.Refused, true, load(func(h *rlxv1.LoadHeader) { h.IoSize++ })},
		{"load-io-shared", code.Refused, true, load(func(h *rlxv1.LoadHeader) { h.IoShared = !h.IoShared })},
		{"place-beyond", code.Refused, true,
			outside(func(p *program.Program, output *program.Place) { output.Offset = p.IOSize })},
		{"place-before", code.Refused, true,
			outside(func(_ *program.Program, output *program.Place) { output.Offset = -program.Align })},
		{"place-overflow", code.Refused, true,
			outside(func(_ *program.Program, output *program.Place) {
				output.Offset = math.MaxInt64 &^ (program.Align - 1)
			})},
		{"place-size", code.Refused, true,
			outside(func(p *program.Program, output *program.Place) { output.Size = p.IOSize + 1 })},
		{"place-arena", code.Refused, true, outside(func(p *program.Program, output *program.Place) {
			output.Space, output.Offset = program.Arena, p.ArenaSize
			for i, at := range p.Places { // an intermediate value, if there is one
				if at.Space == program.Arena && at.Size > 0 && at.Offset != p.ArenaSize {
					p.Places[i].Offset = p.ArenaSize
				}
			}
		})},
		{"place-weights", code.Refused, true,
			b.loading(x.Param, x.ParamWeights, func(h *rlxv1.LoadHeader) { h.Weights.Size = shortened(x.Param) })},
	}
}

// wrongWeights returns requests with weights outside of the file, or new weights that do not fit.
func (b *behaviour) wrongWeights() []wrongRequest {
	x, load := b.sample()
	mapped := func(offset, size int64) maker {
		return load(func(h *rlxv1.LoadHeader) { h.Weights = &rlxv1.Weights{Mapped: true, Offset: offset, Size: size} })
	}
	return []wrongRequest{
		{"weights-beyond", code.Refused, true, mapped(weightsFileSize, 256)},
		{"weights-before", code.Refused, true, mapped(-256, 512)},
		{"weights-overflow", code.Refused, true, mapped(256, math.MaxInt64)},
		{"weights-size", code.Refused, true, mapped(weightsFileSize-256, 257)},
		{"weights-unknown", code.Refused, true,
			func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
				return setWeights(ctx, s, &rlxv1.SetWeightsHeader{Executable: missing,
					Params: []*rlxv1.Range{{Size: 4}}})
			}},
		{"weights-place", code.Refused, true, setting(x, func(h *rlxv1.SetWeightsHeader) { h.Params[0].Size-- })},
		{"weights-order", code.Refused, true,
			setting(x, func(h *rlxv1.SetWeightsHeader) { h.Params = append(h.Params, h.Params[0]) })},
		{"weights-none", code.Refused, true, setting(x, func(h *rlxv1.SetWeightsHeader) { h.Params = nil })},
		{"weights-mapped", code.Refused, true, setting(x, func(h *rlxv1.SetWeightsHeader) { h.Mapped = true })},
	}
}

// wrongRuns returns requests to run with headers that do not fit.
func (b *behaviour) wrongRuns() []wrongRequest {
	x, _ := b.sample()
	otherSyms := map[string]int64{} // lacks N
	if x.Program != nil && len(x.Program.Graph.Syms) == 0 {
		otherSyms["N"] = 1
	}
	first := func(h *rlxv1.RunHeader) *rlxv1.Range { return slices.Concat(h.Inputs, h.Outputs)[0] }
	return []wrongRequest{
		{"run-executable", code.Refused, true, running(func(h *rlxv1.RunHeader) { h.Executable = missing })},
		{"run-generation", code.Refused, true, running(func(h *rlxv1.RunHeader) { h.Generation = 0 })},
		{"run-offset", code.Refused, true, running(func(h *rlxv1.RunHeader) { first(h).Offset += 256 })},
		{"run-size", code.Refused, true, running(func(h *rlxv1.RunHeader) { h.Outputs[0].Size-- })},
		{"run-without-ranges", code.Refused, true,
			running(func(h *rlxv1.RunHeader) { h.Inputs, h.Outputs = nil, nil })},
		{"run-symbols", device.ErrInput, true, running(func(h *rlxv1.RunHeader) { h.Syms = otherSyms })},
		{"run-equal-sizes", device.ErrInput, true, b.unequal},
		{"run-dump", code.Refused, true, running(func(h *rlxv1.RunHeader) { h.Dump = []int32{1 << 20} })},
		{"run-unwanted", code.Refused, true, running(func(h *rlxv1.RunHeader) { h.Unwanted = []int32{0, 0} })},
		{"run-state", code.Refused, true, running(func(h *rlxv1.RunHeader) { h.State = missing })},
	}
}

// wrongCalls returns calls at the wrong time, without a deadline, or of what does not exist.
func wrongCalls() []wrongRequest {
	return []wrongRequest{
		{"cancelled-before", diag.Interrupted, true,
			func(ctx context.Context, s *session, e *executable, b *wire.Binding) error {
				if _, err := s.api.Cancel(ctx, &rlxv1.CancelRequest{Generation: s.Generation() + 1}); err != nil {
					return fmt.Errorf("the call of Cancel before its run: %w", err)
				}
				return running(func(*rlxv1.RunHeader) {})(ctx, s, e, b)
			}},
		{"call-without-deadline", code.Refused, false,
			func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
				ctx, cancel := host.Endless(ctx)
				defer cancel()
				_, err := s.api.Cancel(ctx, &rlxv1.CancelRequest{}) // of no run
				return err
			}},
		{"run-without-deadline", code.Refused, true,
			func(ctx context.Context, s *session, e *executable, b *wire.Binding) error {
				ctx, cancel := host.Endless(ctx)
				defer cancel()
				return running(func(*rlxv1.RunHeader) {})(ctx, s, e, b)
			}},
		{"unload-unknown", code.Refused, false,
			func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
				_, err := s.api.Unload(ctx, &rlxv1.UnloadRequest{Executable: missing})
				return err
			}},
		{"stats-unknown", code.Refused, false,
			func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
				st, err := s.api.Stats(ctx, &rlxv1.StatsRequest{Executable: missing, Generation: 1})
				if err == nil {
					_, err = st.Recv()
				}
				return err
			}},
	}
}

// wrongStates returns requests about states that do not exist or have another size.
func wrongStates() []wrongRequest {
	return []wrongRequest{
		{"state-unknown", code.Refused, false,
			func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
				_, err := s.api.ChangeState(
					ctx, &rlxv1.ChangeStateRequest{State: missing,
						Change: &rlxv1.ChangeStateRequest_Clear{Clear: true}})
				return err
			}},
		{"state-size", code.Refused, true, func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
			_, err := s.api.MakeState(ctx, &rlxv1.MakeStateRequest{Size: -1})
			return err
		}},
		{"state-range", code.Refused, true,
			func(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
				m, err := s.api.MakeState(ctx, &rlxv1.MakeStateRequest{Size: 512})
				if err != nil {
					return err
				}
				st, err := s.api.ReadState(ctx, &rlxv1.StateRange{State: m.State, Offset: 256, Size: 257})
				if err == nil {
					_, err = st.Recv()
				}
				s.api.ChangeState(
					ctx, &rlxv1.ChangeStateRequest{State: m.State, Change: &rlxv1.ChangeStateRequest_Drop{Drop: true}})
				return err
			}},
	}
}

// misplaced returns a copy of a program with wrong places. spoil gets the copy and the place of its first output.
func misplaced(p *program.Program, spoil func(p *program.Program, output *program.Place)) *program.Program {
	if p == nil {
		return nil
	}
	c := *p
	c.Places = slices.Clone(p.Places)
	spoil(&c, &c.Places[c.Graph.Outputs[0].Node.ID])
	return &c
}

// shortened returns a size of the weights in which the last param does not lie.
func shortened(p *program.Program) (size int64) {
	if p != nil {
		for _, at := range p.Places {
			if at.Space == program.Weights {
				size = max(size, at.Offset+at.Size-1)
			}
		}
	}
	return size
}

// unequal runs a program that requires its symbols N and M to be equal with sizes that differ. The ranges are those of
// the values.
func (b *behaviour) unequal(ctx context.Context, s *session, _ *executable, _ *wire.Binding) error {
	p := b.x.Equal
	if p == nil {
		return ErrNotServed
	}
	e, err := s.load(ctx, p, b.x.Weights)
	if err != nil {
		return err
	}
	defer e.Close()
	syms := p.Graph.Syms.Max()
	syms["M"] = 1
	bound := &wire.Binding{}
	ranges := func(n *ir.Node) *rlxv1.Range {
		return &rlxv1.Range{Offset: p.Places[n.ID].Offset, Size: n.Type.Bytes(syms)}
	}
	for _, n := range p.Graph.Inputs() {
		bound.Inputs = append(bound.Inputs, ranges(n))
	}
	for _, o := range p.Graph.Outputs {
		bound.Outputs = append(bound.Outputs, ranges(o.Node))
	}
	return running(func(h *rlxv1.RunHeader) { h.Syms = syms })(ctx, s, e, bound)
}
