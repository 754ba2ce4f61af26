package devicetest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/interp"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// readsWeights are graphs whose ops read weights in ways of which a backend may keep a copy. Sizes are such that a
// backend packs them if it ever does.
var readsWeights = []struct{ name, text string }{
	{"matmul", `
x = input : f32[160,64]
w = param : f32[64,96]
y = matmul x, w : f32[160,96]`},
	{"matmul-f16", `
x = input : f32[160,64]
w = param : f16[64,96]
y = matmul x, w : f32[160,96]`},
	{"products", // which may run jointly
		`
x = input : f32[4,64]
q = param : f32[64,64]
k = param : f32[64,64]
a = matmul x, q : f32[4,64]
b = matmul x, k : f32[4,64]
y = add a, b : f32[4,64]`},
	{"view", `
x = input : f32[4,24]
w = param : f32[8,12]
v = reshape w : f32[4,24]
y = add x, v : f32[4,24]`},
	{"conv2d", `
x = input : f32[1,8,12,12]
w = param : f32[16,8,3,3]
y = conv2d x, w {layout="nchw"} : f32[1,16,10,10]`},
	{"qmatmul", `
x = input : i8[5,64]
w = param : i8[64,48]
m = param : f32[48]
y = qmatmul x, w, m {x_zero=3} : i8[5,48]`},
	{"gather", `
x = input : i32[9]
w = param : f32[2,33]
y = gather w, x {axis=0} : f32[9,33]`},
	{"add", `
x = input : f32[7,33]
w = param : f32[33]
y = add x, w : f32[7,33]`},
	{"constant", // an output that no input changes
		`
w = param : f32[33]
y = neg w : f32[33]`},
}

// checkWeights replaces weights of loaded programs, after runs that may have packed the old ones. The results must be
// those of a program that was loaded with the new weights, bit for bit, in all later runs; and those of the old weights
// when these are set again.
func (s *suite) checkWeights() error {
	if !s.info.SetsWeights {
		return skipped("the backend does not replace weights")
	}
	ran := false
	for _, c := range readsWeights {
		g, err := ir.Parse("graph weights" + c.text + "\nreturn y=y")
		if err != nil {
			panic("BUG: devicetest: " + c.name + ": " + err.Error())
		}
		err = s.replaceWeights(g)
		if errors.Is(err, errRefused) {
			continue
		}
		ran = true
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	if !ran {
		return skipped("the description takes none of the programs with weights")
	}
	return nil
}

func (s *suite) replaceWeights(g *ir.Graph) error {
	rng := rand.New(rand.NewPCG(3, 4))
	some := func(nodes []*ir.Node) values {
		v := values{}
		for _, n := range nodes {
			r := ir.Range{Lo: -1, Hi: 1}
			if !n.Type.DType.IsFloat() {
				r = ir.Range{Lo: 0, Hi: 1} // indices, too
			}
			v[n.Name] = interp.Random(rng, n.Type, nil, r)
		}
		return v
	}
	inputs, old, next := some(g.Inputs()), some(g.Params()), some(g.Params())
	run := func(params values, do func(r *rig, result func() ([]byte, error)) error) error {
		return s.withRig(mustBuild(g, params), params, device.Load{}, func(r *rig) error {
			return do(r, func() ([]byte, error) {
				out, _, err := r.run(background, inputs, device.Run{})
				return bytes.Clone(out["y"].Data), err
			})
		})
	}
	var want []byte
	if err := run(next, func(_ *rig, result func() ([]byte, error)) (err error) {
		want, err = result()
		return err
	}); err != nil {
		return err
	}
	return run(old, func(r *rig, result func() ([]byte, error)) error {
		setter, ok := r.exe.(device.WeightSetter)
		if !ok {
			return fmt.Errorf("the backend claims to replace weights, and its executable is not a device.WeightSetter")
		}
		var first []byte
		for range 3 { // the third run may take what earlier ones have kept
			out, err := result()
			if err != nil {
				return err
			}
			first = out
		}
		for k, weights := range []values{next, old, next} {
			if err := setter.SetWeights(background, newWeights(r, weights)); err != nil {
				return fmt.Errorf("SetWeights: %w", err)
			}
			expect := want
			if k == 1 {
				expect = first
			}
			for range 2 {
				if got, err := result(); err != nil {
					return err
				} else if !bytes.Equal(got, expect) {
					return fmt.Errorf("results after SetWeights are not those of a program loaded with these weights")
				}
			}
		}
		return nil
	})
}

// newWeights returns a request to replace all params of a program.
func newWeights(r *rig, params values) device.NewWeights {
	w := device.NewWeights{Weights: tensor.AlignedBytes(int(r.program.WeightsExtent()))}
	for i := range w.Weights {
		w.Weights[i] = pattern // between the params
	}
	for _, n := range r.program.Graph.Params() {
		w.Params = append(w.Params, n.ID)
		copy(w.Weights[r.program.Places[n.ID].Offset:], params[n.Name].Tensor().Data)
	}
	return w
}
