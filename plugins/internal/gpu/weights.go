package gpu

import (
	"context"
	"slices"

	"github.com/rlx-go/rlx/core/device"
)

// SetWeights copies other values of weights to the device, and waits until that is done.
func (x *executable) SetWeights(_ context.Context, w device.NewWeights) error {
	_, err := guard(x.gpu.api, func() (struct{}, error) { return struct{}{}, x.setWeights(w) })
	return err
}

func (x *executable) setWeights(w device.NewWeights) error {
	x.gpu.mu.Lock()
	defer x.gpu.mu.Unlock()
	defer x.gpu.dev.Use()()
	if err := x.gpu.lostError(); err != nil {
		return err
	}
	if err := x.ownWeights(w); err != nil {
		return err
	}
	for _, id := range w.Params {
		pl := x.program.Places[id]
		for _, r := range x.resident { // steps may read only parts of the param
			from, to := max(r.from, pl.Offset), min(r.to, pl.Offset+pl.Size)
			if from >= to {
				continue
			}
			if err := x.gpu.upload(r.space, r.at+from-r.from, w.Weights[from:to]); err != nil {
				return err
			}
		}
	}
	if err := x.gpu.seen(x.gpu.dev.Uploaded()); err != nil {
		return err
	}
	return x.makeKept(w.Weights, func(r interval) bool {
		return slices.ContainsFunc(w.Params, func(id int) bool {
			pl := x.program.Places[id]
			return max(r.from, pl.Offset) < min(r.to, pl.Offset+pl.Size)
		})
	})
}

// ownWeights gives spaces that lie over the artifact's weights memory of their own if params in them are replaced, and
// copies all of the weights in them.
func (x *executable) ownWeights(w device.NewWeights) error {
	changed := false
	for _, r := range x.resident {
		over := r.space.host
		replaced := false
		for _, id := range w.Params {
			pl := x.program.Places[id]
			replaced = replaced || max(r.from, pl.Offset) < min(r.to, pl.Offset+pl.Size)
		}
		if over == nil || !replaced {
			continue
		}
		x.gpu.drain()
		r.space.host = nil
		r.space.empty()
		if err := r.space.make(x.gpu, "weights"); err != nil {
			return err
		}
		if err := x.gpu.upload(r.space, 0, over); err != nil {
			return err
		}
		changed = true
	}
	if !changed {
		return nil
	}
	x.dropTapes() // they refer to the old buffers
	if err := x.bindAll(); err != nil {
		return err
	}
	for _, d := range x.each() {
		if d.stateful && d.bound != nil {
			if err := x.bindGroup(d); err != nil {
				return err
			}
		}
	}
	return x.gpu.seen(x.gpu.dev.Uploaded())
}
