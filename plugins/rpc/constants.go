package rpc

import (
	"bytes"
	"slices"

	"github.com/rlx-go/rlx/core/device"
)

// constants are the results of a program that all runs compute alike, such as SAM 3's encodings of positions. The host keeps a copy of them from the
// second run on, and later runs ask the backend only for the other results. The first run keeps none, because many processes run a program once.
type constants struct {
	is   []bool   // by output
	runs int      // successful runs
	data [][]byte // by output; nil if the host has no copy
}

// known returns the outputs of a run that the host has a copy of, or nil if there are none. It leaves the backend at least one result to compute.
// Observed and measured runs compute all results.
func (c *constants) known(r device.Run) []bool {
	if c.data == nil || r.Opts.Profile || r.Opts.CheckNaN || len(r.Opts.Dump) > 0 {
		return nil
	}
	known, left := make([]bool, len(c.is)), len(r.Keeps) > 0
	for i := range known {
		known[i] = r.Wants(i) && c.data[i] != nil
		left = left || r.Wants(i) && !known[i]
	}
	if !left || !slices.Contains(known, true) {
		return nil
	}
	return known
}

// without returns the run without the known outputs.
func without(r device.Run, known []bool) device.Run {
	if known == nil {
		return r
	}
	wanted := make([]bool, len(known))
	for i := range wanted {
		wanted[i] = r.Wants(i) && !known[i]
	}
	r.Outputs = wanted
	return r
}

// learn copies the results of a successful run that are constant and not known yet.
func (c *constants) learn(r device.Run, out [][]byte) {
	c.runs++
	if c.runs < 2 || !slices.Contains(c.is, true) {
		return
	}
	if c.data == nil {
		c.data = make([][]byte, len(c.is))
	}
	for i, constant := range c.is {
		if constant && r.Wants(i) && c.data[i] == nil {
			c.data[i] = bytes.Clone(out[i])
		}
	}
}
