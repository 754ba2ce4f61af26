package wire

import (
	"fmt"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/target"
	rlxv1 "github.com/rlx-go/rlx/plugins/rpc/rlxv1"
)

// EncodeInfo converts a description to the message that a backend sends.
func EncodeInfo(i device.Info) *rlxv1.InfoReply {
	r := &rlxv1.InfoReply{Name: i.Name, Version: i.Version, Levels: i.Levels, MaxAlloc: i.MaxAlloc,
		Precisions: i.Precisions, SetsWeights: i.SetsWeights}
	if b := i.RowBounds; b != nil {
		r.RowBounds = &rlxv1.RowBounds{Products: numbers[int32](b.Products), Queries: numbers[int32](b.Queries)}
	}
	if i.Target != nil {
		r.Target = i.Target.String()
	}
	for _, d := range i.Devices {
		r.Devices = append(
			r.Devices, &rlxv1.Device{Id: d.ID, Name: d.Name, Type: d.Type, Memory: d.Memory, Features: d.Features})
	}
	return r
}

// DecodeInfo converts and checks a backend's description.
func DecodeInfo(r *rlxv1.InfoReply) (device.Info, error) {
	for _, n := range []int{len(r.Levels), len(r.Devices), len(r.Precisions), len(r.RowBounds.GetProducts()),
		len(r.RowBounds.GetQueries())} {
		if n > MaxListed {
			return device.Info{}, fmt.Errorf("sent a description with a list of %d entries; at most %d", n, MaxListed)
		}
	}
	to, err := target.Parse(r.Target)
	if err != nil {
		return device.Info{}, fmt.Errorf("sent a target description that cannot be read: %w", err)
	}
	i := device.Info{Name: Clean(r.Name), Version: Clean(r.Version), Target: to, Levels: cleanAll(r.Levels),
		MaxAlloc:   r.MaxAlloc,
		Precisions: cleanAll(r.Precisions), SetsWeights: r.SetsWeights}
	if b := r.RowBounds; b != nil {
		i.RowBounds = &device.RowBounds{Products: numbers[int](b.Products), Queries: numbers[int](b.Queries)}
	}
	for _, d := range r.Devices {
		if len(d.GetFeatures()) > MaxListed {
			return device.Info{}, fmt.Errorf("described a device with %d features; at most %d", len(d.GetFeatures()),
				MaxListed)
		}
		i.Devices = append(
			i.Devices, device.Device{ID: Clean(d.GetId()), Name: Clean(d.GetName()), Type: Clean(d.GetType()),
				Memory: d.GetMemory(), Features: cleanAll(d.GetFeatures())})
	}
	if err := i.Check(); err != nil {
		return device.Info{}, fmt.Errorf("sent an invalid description: %w", err)
	}
	return i, nil
}

// numbers converts a list of numbers.
func numbers[To, From int | int32](in []From) (out []To) {
	for _, n := range in {
		out = append(out, To(n))
	}
	return out
}

// cleanAll applies clean to each string.
func cleanAll(in []string) []string {
	var out []string
	for _, s := range in {
		out = append(out, Clean(s))
	}
	return out
}
