package driver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cuda/matrix"
	"github.com/rlx-go/rlx/plugins/cuda/ptx"
	"github.com/rlx-go/rlx/plugins/cuda/shim"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// Graphs in which steps write what products read in 16 bits: norms, products, attention. In the first, runs with few
// rows use other kernels, and q and z read the same copy.
var roundedGraphs = []string{`graph rows
sym S = 1..70
x = input : f32[S,128]
g = input : f32[128]
b = input : f32[128]
w1 = input : f32[192,128]
b1 = input : f32[192]
w2 = input : f32[128,192]
w3 = input : bf16[64,128]
h = rms_norm x, g, b {eps=1e-05} : f32[S,128]
q = fused_matmul h, w1, bias=b1 {act="gelu", trans_b=true} : f32[S,192]
y = fused_matmul q, w2, residual=x {trans_b=true} : f32[S,128]
z = matmul h, w3 {trans_b=true} : f32[S,64]
n = layer_norm y, g, b {eps=1e-05} : f32[S,128]
o = matmul n, w1 {trans_b=true} : f32[S,192]
return o=o, y=y, z=z
`, `graph window
qkv = input : f32[1,11,9,384]
pad = input : f32[384]
w = input : f32[64,128]
a = grid_attention qkv, pad {heads=2, window=9} : f32[1,11,9,128]
y = matmul a, w {trans_b=true} : f32[1,11,9,64]
return y=y
`, `graph tokens
qkv = input : f32[2,70,192]
w = input : f32[300,64]
a = attention qkv, qkv, qkv {head_dim=16, heads=4, layout="bse", mask="none", packed=[0,64,128]} : f32[2,70,64]
y = matmul a, w {trans_b=true} : f32[2,70,300]
return y=y
`, `graph turned
x = input : f32[1,75,64]
w = input : f32[192,64]
cos = input : f32[75,8]
sin = input : f32[75,8]
v = input : f32[64,64]
qkv = matmul x, w {trans_b=true} : f32[1,75,192]
q = rope qkv, cos=cos, sin=sin {head_dim=16, heads=4, layout="bse", style="gptj"} : f32[1,75,64]
k = rope qkv, cos=cos, sin=sin {head_dim=16, heads=4, layout="bse", start=64, style="neox"} : f32[1,75,64]
a = attention q, k, qkv {head_dim=16, heads=4, layout="bse", mask="none", packed=[0,0,128]} : f32[1,75,64]
y = matmul a, v {trans_b=true} : f32[1,75,64]
return y=y
`, `graph together
x = input : f32[2,70,64]
w = input : f32[192,64]
v = input : f32[96,64]
cos = input : f32[70,8]
sin = input : f32[70,8]
qkv = matmul x, w {trans_b=true} : f32[2,70,192]
a = attention qkv, qkv, qkv {head_dim=16, heads=4, layout="bse", mask="none", packed=[0,64,128]} : f32[2,70,64]
q = rope a, cos=cos, sin=sin {head_dim=16, heads=4, layout="bse", style="neox"} : f32[2,70,64]
b = attention q, q, a {head_dim=16, heads=4, layout="bse", mask="causal", packed=[0,0,0]} : f32[2,70,64]
y = matmul b, v {trans_b=true} : f32[2,70,96]
return y=y
`, `graph twice
x = input : f32[1,75,64]
w = input : f32[96,64]
q = rope x {base=10000, head_dim=16, heads=4, layout="bse", style="neox"} : f32[1,75,64]
y = matmul q, w {trans_b=true} : f32[1,75,96]
return q=q, y=y
`}

// with some rows, all run on matrix units, and only the copies are written
func init() {
	fixed := strings.NewReplacer("sym S = 1..70\n", "", "S,", "41,").Replace(roundedGraphs[0])
	roundedGraphs = append(roundedGraphs, fixed)
}

// TestInterpretedRounded: results do not depend on which step rounds an operand, whatever the number of rows.
func TestInterpretedRounded(t *testing.T) {
	devices := []matrix.Device{withMMA, withWGMMA}
	for _, tile := range withWGMMA.Tiles() {
		if tile.PingPong {
			d := withWGMMA
			d.Tile, d.Processors = &tile, 1
			devices = append(devices, d)
		}
	}
	for _, d := range devices {
		for _, i := range third(t, len(roundedGraphs)) {
			t.Run(fmt.Sprintf("%d/%v/%d", d.Capability, d.Tile, i), func(t *testing.T) {
				precision := []string{"bf16", "f16"}[i%2]
				testRounded(t, roundedGraphs[i], precision, func(readers bool, c *copies) device.Backend {
					return shim.New(shim.Options{
						PTX: func(text string) (*ptx.Kernel, bool) { return matrix.Kernel(text) },
						Limits: func(l *gpu.Limits) {
							l.Kernels.Own, l.Precisions = matrix.Kernels(d), matrix.Precisions()
							watch(l, readers, c)
						},
					})
				})
			})
		}
	}
}

// TestRounded is TestInterpretedRounded on the device.
func TestRounded(t *testing.T) {
	for _, text := range roundedGraphs {
		for _, p := range halves {
			testRounded(t, text, p, func(readers bool, c *copies) device.Backend {
				a := newAPI(openLibrary, cacheFolder())
				a.change = func(l *gpu.Limits) { watch(l, readers, c) }
				return gpu.New(a)
			})
		}
	}
}

// observed returns the values of all steps.
func observed(t *testing.T, r *graphRun, syms map[string]int64) map[int]*tensor.Array {
	out := map[int]*tensor.Array{}
	o := device.RunOptions{Observe: func(n int, shape []int, data []byte) error {
		typ := r.program.Graph.Nodes[n].Type.DType
		out[n] = tensor.Tensor{DType: typ, Shape: slices.Clone(shape), Data: slices.Clone(data)}.Array()
		return nil
	}}
	for _, s := range r.program.Steps {
		o.Dump = append(o.Dump, s.Node)
	}
	if _, err := r.exe.Run(t.Context(), device.Run{IO: r.io, Syms: syms, Opts: o}); err != nil {
		t.Fatal(err)
	}
	return out
}

// copies tells whether steps read copies in 16 bits, and whether a value is written only so.
type copies struct{ read, alone bool }

// watch finds copies, or makes steps round operands themselves.
func watch(l *gpu.Limits, readers bool, c *copies) {
	for name, own := range l.Kernels.Own {
		if !readers {
			own.ReadsRounded = nil
		}
		shaders := own.Shaders
		own.Shaders = func(n *ir.Node, l kernels.Limits) []kernels.Shader {
			list := shaders(n, l)
			if list != nil {
				c.read, c.alone = c.read || l.Rounded != [3]bool{}, c.alone || l.RoundsOnly
			}
			return list
		}
		l.Kernels.Own[name] = own
	}
}

func testRounded(t *testing.T, text, precision string, on func(readers bool, c *copies) device.Backend) {
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var with, without copies
	runs := []*graphRun{loadOn(t, on(true, &with), g, precision), loadOn(t, on(false, &without), g, precision)}
	if !with.read || with.alone != (len(g.Syms) == 0 && g.Name != "twice") || without != (copies{}) {
		t.Errorf("copies are %+v, without readers %+v", with, without)
	}
	inside := map[string]int{"rows": 3, "window": 1, "tokens": 1, "turned": 3, "together": 3}[g.Name]
	if !with.alone {
		inside = 0 // each value is written, too
	}
	if n := gpu.Inspect(runs[0].exe).Inside(); n != inside {
		t.Errorf("%d copies lie in the memory of their values; want %d", n, inside)
	}
	sizes := []int64{40, 3, 70, 9, 1}
	if len(g.Syms) == 0 {
		sizes = []int64{1}
	}
	for _, size := range sizes {
		syms := map[string]int64{}
		for _, s := range g.Syms {
			syms[s.Name] = size
		}
		var out [2][]byte
		for k, r := range runs {
			bound, err := program.NewBinder(r.program).Bind(syms)
			if err != nil {
				t.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(uint64(size), 1))
			for i, n := range r.program.Graph.Inputs() {
				o := bound.Inputs[i]
				a := normal(rng, n.Type.At(syms))
				a.Store(r.io[o.Offset : o.Offset+o.Bytes])
			}
			if _, err := r.exe.Run(context.Background(), device.Run{IO: r.io, Syms: syms}); err != nil {
				t.Fatal(err)
			}
			for _, o := range bound.Outputs {
				out[k] = append(out[k], r.io[o.Offset:o.Offset+o.Bytes]...)
			}
		}
		if !slices.Equal(out[0], out[1]) {
			t.Errorf("size %d: the results differ", size)
		}
		// the values of all steps can be seen, rounded if only that is written
		all := [2]map[int]*tensor.Array{observed(t, runs[0], syms), observed(t, runs[1], syms)}
		for n, a := range all[0] {
			b := all[1][n]
			if !slices.Equal(a.Floats, b.Floats) && !slices.Equal(a.Floats, rounded(b, precision).Floats) {
				t.Errorf("size %d: the values of %s differ", size, g.Nodes[n].Label())
			}
		}
	}
}
