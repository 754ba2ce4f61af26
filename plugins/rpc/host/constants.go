package host

import (
	"bytes"
	"slices"

	"github.com/rlx-go/rlx/core/device"
)

// constants caches the constant outputs of a program, which are the same in all runs. An example is SAM 3's encoding of
// positions. The second run stores them, and later runs ask the backend only for the other outputs. The first run
// stores nothing, because many processes run a program only once.
type constants struct {
	is   []bool   // for each output, whether it is constant
	runs int      // number of successful runs
	data [][]byte // for each output, its cached value or nil
}

// cached reports for each output whether the run takes it from the cache. It returns nil if the cache has no output of
// the run, if the backend would have nothing left to compute, and for runs that are profiled, checked or dumped.
func (c *constants) cached(r device.Run) []bool {
	if c.data == nil || r.Opts.Profile || r.Opts.CheckNaN || len(r.Opts.Dump) > 0 {
		return nil
	}
	cached, left := make([]bool, len(c.is)), len(r.Keeps) > 0
	for i := range cached {
		cached[i] = r.Wants(i) && c.data[i] != nil
		left = left || r.Wants(i) && !cached[i]
	}
	if !left || !slices.Contains(cached, true) {
		return nil
	}
	return cached
}

// without returns r without the cached outputs.
func without(r device.Run, cached []bool) device.Run {
	if cached == nil {
		return r
	}
	wanted := make([]bool, len(cached))
	for i := range wanted {
		wanted[i] = r.Wants(i) && !cached[i]
	}
	r.Outputs = wanted
	return r
}

// store copies the constant outputs of a successful run that are not cached yet.
func (c *constants) store(r device.Run, out [][]byte) {
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
