package devicetest

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// Fuzz lets the fuzzer choose an op, a case, sizes, a form and values, and compares the backend's results with the op's
// definition. It calls open for each input.
//
// Every case of every op is a seed. Without -fuzz only a quarter of the seeds run, chosen by SampleEnv, because Run
// covers the same cases.
func Fuzz(f *testing.F, open func(t *testing.T) device.Backend) {
	chosen, err := sampleFromEnv()
	if err != nil {
		f.Fatal(err)
	}
	defs := slices.DeleteFunc(ir.Defs(), func(d *ir.OpDef) bool { return !runnable(d) })
	var seeds [][]byte
	for i, d := range defs {
		for k := range d.Cases() {
			seeds = append(seeds, []byte{byte(i), byte(k), byte(k), byte(i + k)})
		}
	}
	few := len(seeds)
	if flag.Lookup("test.fuzz").Value.String() == "" {
		few /= 4
		if testing.Short() { // in an emulator, which is slow
			few /= 4
		}
	}
	for _, i := range chosen.some(uint64(few), uint64(len(seeds))) {
		f.Add(seeds[i])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sub, c, ok := choose(defs, data)
		if !ok {
			t.Skip()
		}
		b := open(t)
		info, err := b.Info(context.Background())
		if err != nil {
			t.Skip(err)
		}
		in := sub.random(c.seed)
		c.fill(sub, in)
		err = newSuite(b, info).rigged(sub, c.form, c.threads, in, func(r *rig) error {
			_, err := sub.verify(r, in)
			return err
		})
		if err = (&ledger{}).judge(sub.def.Name, err); err != nil {
			t.Errorf("%s: %v", fmt.Sprintf("%s, %d threads", c.form.name, c.threads), err)
		}
	})
}

// choice holds the fuzzer's choices other than the subject.
type choice struct {
	seed    uint64
	form    form
	threads int
	special bool
}

// choose decodes the fuzzer's bytes: the op, the case, a byte of options, and a seed whose first four bytes also choose
// sizes.
func choose(defs []*ir.OpDef, data []byte) (subject, choice, bool) {
	if len(data) < 4 {
		return subject{}, choice{}, false
	}
	def := defs[int(data[0])%len(defs)]
	cases := def.Cases()
	if len(cases) == 0 {
		return subject{}, choice{}, false
	}
	sub, err := newSubject(def, cases[int(data[1])%len(cases)])
	if err != nil {
		return subject{}, choice{}, false
	}
	opts, rest := data[2], data[3:]
	var word [8]byte
	copy(word[:], rest)
	c := choice{seed: binary.LittleEndian.Uint64(word[:]), threads: 1 + int(opts>>6)%3, special: opts&1 != 0}
	for k := range min(len(rest), 4) { // change up to four sizes
		if n, ok := sub.resized(rand.New(rand.NewPCG(uint64(rest[k]), uint64(k)))); ok && rest[k]&1 != 0 {
			sub = n
		}
	}
	c.form = form{name: "inputs"}
	switch opts >> 1 & 3 {
	case 1:
		if f, ok := sub.weightForm(); ok {
			c.form = f
		}
	case 2:
		c.form = form{name: "arena", arena: true}
	case 3:
		if f, ok := sub.weightForm(); ok {
			c.form = f
			if n, ok := sub.narrowed(f, []dtype.DType{dtype.F16, dtype.BF16}[opts>>3&1]); ok {
				sub = n
			}
		}
	}
	return sub, c, true
}

// fill replaces operands by special values if c asks for it. It leaves the floats of ops that are not elementwise,
// because a single NaN could make the whole result NaN.
func (c choice) fill(sub subject, in []*tensor.Array) {
	if !c.special {
		return
	}
	rng := rand.New(rand.NewPCG(c.seed, 3))
	if sub.manySpecials() {
		dense(rng, in)
	}
	if !sub.leaf() {
		extremes(rng, in)
	}
}
