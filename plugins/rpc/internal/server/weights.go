//go:build linux || darwin || windows

package server

import (
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// SetWeights replaces weights of a loaded program.
func (s *Server) SetWeights(in grpc.ClientStreamingServer[rlxv1.SetWeightsRequest, rlxv1.SetWeightsReply]) error {
	first, err := firstOf(in)
	if err != nil {
		return err
	}
	if !s.running.TryLock() {
		return protocolError("weights: a run is in progress")
	}
	defer s.running.Unlock()
	h := first.GetHeader()
	if h == nil {
		return protocolError("weights: the first message is not a header")
	}
	l, err := s.find(h.Executable)
	if err != nil {
		return err
	}
	if want := l.weights != nil && s.files.Weights != nil; h.Mapped != want {
		return protocolError("weights: mapped is %v; want %v, because the program's weights were mapped: %v, "+
			"and memory for new ones was inherited: %v", h.Mapped, want, l.weights != nil, s.files.Weights != nil)
	}
	setter, ok := l.exe.(device.WeightSetter)
	if !ok {
		return wire.ToStatus(diag.New(device.ErrUnsupported, "", "the backend cannot replace weights"), nil)
	}
	params, total, err := l.paramsAt(h.Params)
	if err != nil {
		return err
	}
	if !h.Mapped && total > wire.MaxStreamed {
		return protocolError("weights: %d bytes in chunks; at most %d", total, int64(wire.MaxStreamed))
	}
	if h.Mapped {
		if err := s.mapNewWeights(l); err != nil {
			return statusOf(err, nil)
		}
	} else {
		// The program may read its memory in place, so nothing is written to it before all bytes are here.
		sent, err := receive(in, total)
		if err == nil {
			err = l.store(h.Params, sent)
		}
		if err != nil {
			return statusOf(err, nil)
		}
	}
	if err := setter.SetWeights(in.Context(), device.NewWeights{Params: params, Weights: l.newWeights}); err != nil {
		return statusOf(err, nil)
	}
	return in.SendAndClose(&rlxv1.SetWeightsReply{})
}

// paramsAt returns the params of the program with these places, and their size in bytes.
func (l *loaded) paramsAt(places []*rlxv1.Range) (params []int, total int64, err error) {
	if len(places) == 0 || len(places) > wire.MaxListed {
		return nil, 0, protocolError("weights: %d params; want 1 to %d", len(places), wire.MaxListed)
	}
	at := map[[2]int64][]int{}
	for _, n := range l.prog.Graph.Params() {
		pl := l.prog.Places[n.ID]
		at[[2]int64{pl.Offset, pl.Size}] = append(at[[2]int64{pl.Offset, pl.Size}], n.ID)
	}
	end := int64(-1)
	for _, r := range places {
		nodes := at[[2]int64{r.GetOffset(), r.GetSize()}]
		if len(nodes) == 0 || r.GetSize() == 0 || r.GetOffset() <= end {
			return nil, 0, protocolError(
				"weights: %d bytes at %d; want the places of params, by ascending offset, each once", r.GetSize(),
				r.GetOffset())
		}
		params, total, end = append(params, nodes...), total+r.GetSize(), r.GetOffset()
	}
	return params, total, nil
}

// mapNewWeights maps the inherited memory for new weights, which all programs share.
func (s *Server) mapNewWeights(l *loaded) error {
	if s.newWeights == nil {
		b, err := wire.MapNewWeights(s.files.Weights, 1)
		if err != nil {
			return diag.New(code.Refused, "", "weights: %w", err)
		}
		s.newWeights = b
	}
	if n := l.prog.WeightsExtent(); n > int64(len(s.newWeights)) {
		return diag.New(code.Refused, "", "weights: the memory for them has %d bytes; the program needs %d",
			len(s.newWeights), n)
	}
	l.newWeights = s.newWeights
	return nil
}

// receive reads the bytes of weights that are sent in chunks.
func receive(in grpc.ClientStreamingServer[rlxv1.SetWeightsRequest, rlxv1.SetWeightsReply], total int64) ([]byte,
	error) {
	out := tensor.AlignedBytes(int(total))[:0]
	for int64(len(out)) < total {
		m, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return nil, diag.New(code.Refused, "", "weights: ended after %d of %d bytes", len(out), total)
		}
		if err != nil {
			return nil, err
		}
		b := m.GetData()
		if most := min(total-int64(len(out)), wire.MaxChunk); len(b) == 0 || int64(len(b)) > most {
			return nil, diag.New(code.Refused, "", "weights: a chunk of %d bytes; want 1 to %d", len(b), most)
		}
		out = append(out, b...)
	}
	return out, nil
}

// store writes weights that were sent in chunks to memory of the program. Only the pages that it writes take memory.
func (l *loaded) store(places []*rlxv1.Range, sent []byte) error {
	if l.ownWeights == nil {
		m, err := mapMemory(l.prog.WeightsExtent())
		if err != nil {
			return diag.New(device.ErrMemory, "", "memory for new weights: %w", err)
		}
		l.ownWeights = m
	}
	for _, r := range places {
		copy(l.ownWeights.data[r.Offset:], sent[:r.Size])
		sent = sent[r.Size:]
	}
	l.newWeights = l.ownWeights.data
	return nil
}
