package host

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/plugins/rpc/internal/wire"

	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// NewWeight is a weight with other values than those of the artifact.
type NewWeight struct {
	Offset int64  // of the weight in the space of the weights, in bytes
	Data   []byte // all of its bytes
}

// CheckSetsWeights returns device.ErrUnsupported if the backend cannot replace weights.
func (s *Session) CheckSetsWeights() error {
	if s.info.SetsWeights {
		return nil
	}
	return diag.New(device.ErrUnsupported, s.name, "cannot replace weights").WithHint(
		"use a newer version of the backend, or compile the weights into the artifact")
}

// SetWeights replaces weights in each executable that has them as params. size is the size of the space of the weights
// in bytes, and must be the same in each call for a session. SetWeights waits until no run uses the session. Once it
// has begun, ctx does not end it. If the backend fails, the weights are undefined, so the session ends.
func (s *Session) SetWeights(ctx context.Context, size int64, list []NewWeight, in []*Executable) error {
	if err := s.CheckSetsWeights(); err != nil {
		return err
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b NewWeight) int { return cmp.Compare(a.Offset, b.Offset) })
	if s.newWeights != nil && slices.ContainsFunc(in, func(e *Executable) bool { return e.mapped }) {
		if s.newWeights.Data == nil {
			if err := s.newWeights.Grow(size); err != nil {
				return diag.New(device.ErrMemory, s.name, "memory for new weights: %w", err)
			}
		}
		for _, w := range list {
			copy(s.newWeights.Data[w.Offset:], w.Data)
		}
	}
	for _, e := range in {
		if err := e.setWeights(context.WithoutCancel(ctx), list); err != nil {
			s.fail(err)
			return err
		}
	}
	return nil
}

// SetWeights implements device.WeightSetter for programs whose weights were sent by Load.
func (e *Executable) SetWeights(ctx context.Context, w device.NewWeights) error {
	var list []NewWeight
	for _, id := range w.Params {
		pl := e.prog.Places[id]
		list = append(list, NewWeight{pl.Offset, w.Weights[pl.Offset : pl.Offset+pl.Size]})
	}
	if e.mapped {
		panic("BUG: Executable.SetWeights of a program whose weights are mapped; Session.SetWeights replaces those")
	}
	return e.session.SetWeights(ctx, 0, list, []*Executable{e})
}

// setWeights replaces the params of a program that are in list, which is sorted by offset.
func (e *Executable) setWeights(ctx context.Context, list []NewWeight) error {
	params := map[weightPlace]bool{}
	for _, n := range e.prog.Graph.Params() {
		params[weightPlace{e.prog.Places[n.ID].Offset, e.prog.Places[n.ID].Size}] = true
	}
	head := &rlxv1.SetWeightsHeader{Executable: e.id, Mapped: e.mapped}
	var data [][]byte
	for _, w := range list {
		if size := int64(len(w.Data)); size > 0 && params[weightPlace{w.Offset, size}] {
			head.Params = append(head.Params, &rlxv1.Range{Offset: w.Offset, Size: size})
			data = append(data, w.Data)
		}
	}
	for len(head.Params) > 0 {
		n := min(len(head.Params), wire.MaxListed)
		part := &rlxv1.SetWeightsHeader{Executable: e.id, Mapped: head.Mapped, Params: head.Params[:n]}
		if err := e.sendWeights(ctx, part, data[:n]); err != nil {
			return err
		}
		head.Params, data = head.Params[n:], data[n:]
	}
	e.constants = constants{is: e.constants.is} // they may depend on the weights
	return nil
}

// weightPlace is a place in the space of the weights.
type weightPlace struct{ offset, size int64 }

// sendWeights makes the call for at most wire.MaxListed params.
func (e *Executable) sendWeights(ctx context.Context, head *rlxv1.SetWeightsHeader, data [][]byte) error {
	s := e.session
	what := func() string { return "while it replaced weights of " + e.prog.Method }
	return s.call(ctx, s.opts.Timeouts.Load, what, func(ctx context.Context) error {
		stream, err := s.api.SetWeights(ctx)
		if err != nil {
			return err
		}
		err = stream.Send(&rlxv1.SetWeightsRequest{Part: &rlxv1.SetWeightsRequest_Header{Header: head}})
		if !head.Mapped {
			for _, b := range data {
				for c := range slices.Chunk(b, wire.MaxChunk) {
					if err == nil {
						err = stream.Send(&rlxv1.SetWeightsRequest{Part: &rlxv1.SetWeightsRequest_Data{Data: c}})
					}
				}
			}
		}
		if err != nil && !errors.Is(err, io.EOF) { // after io.EOF, CloseAndRecv returns the reason
			return err
		}
		_, err = stream.CloseAndRecv()
		return err
	})
}
