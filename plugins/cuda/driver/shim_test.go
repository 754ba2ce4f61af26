package driver

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/devicetest"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/plugins/cuda/matrix"
	"github.com/rlx-go/rlx/plugins/cuda/ptx"
	"github.com/rlx-go/rlx/plugins/cuda/shim"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// Devices for which kernels are interpreted.
var (
	withMMA   = matrix.Device{Capability: 80, Processors: 4, Shared: 160 << 10}
	withWGMMA = matrix.Device{Capability: 90, Processors: 4, Shared: 227 << 10}
)

// interpreted returns a backend that interprets the PTX of kernels for a device, after a change of their text.
func interpreted(d matrix.Device, change func(text string) string) *gpu.Backend {
	return shim.New(shim.Options{
		PTX: func(text string) (*ptx.Kernel, bool) {
			k, ok := matrix.Kernel(text)
			if ok {
				k.Text = change(k.Text)
			}
			return k, ok
		},
		Limits: func(l *gpu.Limits) {
			l.Kernels.Own, l.Kernels.Keeps, l.Precisions = matrix.Kernels(d), true, matrix.Precisions()
			l.Kernels.OwnVectors, l.Kernels.OwnDecoding = matrix.Vectors(d), matrix.Decoding(d)
		},
	})
}

// third chooses a third of n cases, as devicetest.Some does: interpreting takes long.
func third(t *testing.T, n int) []uint64 {
	t.Helper()
	return devicetest.Some(t, uint64(n+2)/3, uint64(n))
}

// TestInterpretedProducts runs products with all tiles on the interpreter, which reports races and copies that are not
// waited for.
func TestInterpretedProducts(t *testing.T) {
	nt := op.FusedMatMulAttrs{TransB: true}
	gelu := nt
	gelu.Act = "gelu"
	for _, d := range []matrix.Device{withMMA, withWGMMA} {
		for _, tile := range d.Tiles() {
			if d.Capability == 90 && !tile.Warpgroup {
				continue
			}
			d.Tile = &tile
			if tile.PingPong {
				d.Processors = 1 // so that warpgroups take turns
			}
			cases := []product{
				{1, 131, 197, 257, dtype.F32, gelu, true, true, true},
				{2, 70, 66, 128, dtype.BF16, nt, false, false, false},
				{1, 105, 68, 384, dtype.BF16, gelu, true, true, true},
				{5, 140, 196, 200, dtype.BF16, gelu, true, true, false},
			}
			for _, i := range third(t, len(cases)) {
				c := cases[i]
				d.Splits = max(0, int(i)-1) * 3
				on := interpreted(d, strings.Clone)
				for _, p := range []string{halves[i%2], "tf32"} {
					t.Run(fmt.Sprintf("%d/%s/%s/%s", d.Capability, tile, p, c),
						func(t *testing.T) { c.testOn(t, on, p, i) })
				}
			}
		}
	}
}

// TestInterpreterFinds removes what orders the accesses of a kernel to shared memory, and expects an error.
func TestInterpreterFinds(t *testing.T) {
	c := product{1, 131, 133, 300, dtype.F32, op.FusedMatMulAttrs{TransB: true}, true, true, true}
	for _, m := range []struct {
		d              matrix.Device
		from, to, want string
	}{
		{withMMA, "bar.sync 0;", "", "since the last barrier"},
		{withMMA, "cp.async.wait_group 2;", "cp.async.wait_group 3;", "to which a copy is not complete"},
		{withWGMMA, "bar.sync 0;", "", "since the last barrier"},
		{withWGMMA, "fence.proxy.async.shared::cta;", "", "has no fence after its write"},
		{withWGMMA, "wgmma.wait_group.sync.aligned 0;", "", "is a sum of a product that is not waited for"},
		{withWGMMA, "wgmma.wait_group.sync.aligned 1;", "wgmma.wait_group.sync.aligned 2;", "since the last barrier"},
	} {
		d := m.d
		for _, tile := range d.Tiles() {
			if tile.M == 64 && tile.N == 128 && tile.Stages == 4 && tile.Warpgroup == (d.Capability == 90) {
				d.Tile = &tile
				break
			}
		}
		changed := false
		r := loadOn(t, interpreted(d, func(text string) string {
			changed = changed || strings.Contains(text, m.from)
			return strings.ReplaceAll(text, m.from, m.to)
		}), c.graph(), "bf16")
		_, err := r.exe.Run(t.Context(), device.Run{IO: r.io})
		if !changed || err == nil || !strings.Contains(err.Error(), m.want) {
			t.Errorf("%d without %s: changed %t, error %.300v; want %s", d.Capability, m.from, changed, err, m.want)
		}
	}
}

// TestInterpretedWeights: weights are rounded when they are loaded, and those that are replaced again after that. The
// TestInterpreterFindsTurns is TestInterpreterFinds for the barriers by which warpgroups take turns.
func TestInterpreterFindsTurns(t *testing.T) {
	for _, tile := range withWGMMA.Tiles() {
		if !tile.PingPong {
			continue
		}
		// the second tile begins in the third round of the ring
		k := 64*(2*tile.Stages+1) - 20
		c := product{1, 131, 133, k, dtype.F32, op.FusedMatMulAttrs{TransB: true}, true, true, true}
		d := withWGMMA
		d.Tile, d.Processors = &tile, 1
		try := func(offset int) string {
			return fmt.Sprintf(`mbarrier\.try_wait\.parity\.shared::cta\.b64 (%%p\d+), \[%%r\d+\+%d\], %%r\d+;`, offset)
		}
		for _, m := range []struct{ from, to, want string }{
			{`fence\.proxy\.async\.shared::cta;`, "", "has no fence after its write"},
			{`wgmma\.wait_group\.sync\.aligned 0;`, "", "is a sum of a product that is not waited for"},
			{`wgmma\.wait_group\.sync\.aligned 1;`, "wgmma.wait_group.sync.aligned 2;", "which a product reads"},
			{`cp\.async\.mbarrier\.arrive\.noinc\.shared::cta\.b64 `, "mbarrier.arrive.shared::cta.b64 %d1, ",
				"to which a copy is not complete"},
			{try(0), "mov.pred $1, 1;", "to which a copy is not complete"},
			{try(8 * tile.Stages), "mov.pred $1, 1;", "a race"},
			{try(16 * tile.Stages), "mov.pred $1, 1;", "a race"},
			{`@%p\d+ mbarrier\.arrive\.shared::cta\.b64 .*;`, "", "wait at the barrier forever"},
			{`bar\.sync 0;`, "", "a race"},
		} {
			pattern, changed := regexp.MustCompile(m.from), false
			r := loadOn(t, interpreted(d, func(text string) string {
				changed = changed || pattern.MatchString(text)
				return pattern.ReplaceAllString(text, m.to)
			}), c.graph(), "bf16")
			_, err := r.exe.Run(t.Context(), device.Run{IO: r.io})
			if !changed || err == nil || !strings.Contains(err.Error(), m.want) {
				t.Errorf("%v, without %s: changed %t, error %.300v; want %s", tile, m.from, changed, err, m.want)
			}
		}
	}
}

// device has no others.
func TestInterpretedWeights(t *testing.T) {
	const m, n, k = 128, 64, 64
	g := ir.NewGraph("weights")
	x, w := op.Input(g, "x", ir.TypeOf(dtype.F32, m, k)), op.Param(g, "w", ir.TypeOf(dtype.F32, n, k))
	other := op.Param(g, "other", ir.TypeOf(dtype.F32, n, k))
	product := func(w *ir.Node) *ir.Node { return op.FusedMatMul(x, w, nil, nil, op.FusedMatMulAttrs{TransB: true}) }
	g.Return("y", op.Add(product(w), product(other)))
	p, _, err := sched.Build(g, sched.Options{Target: "cpu",
		Weights: func(name string) (int64, bool) {
			return map[string]int64{"w": 0, "other": 4 * n * k}[name], true
		}})
	if err != nil {
		t.Fatal(err)
	}
	on := interpreted(withMMA, strings.Clone)
	params := p.Graph.Params()
	weights := make([]byte, p.Places[params[1].ID].Offset+4*n*k)
	set := func(i int, v float32) {
		for k := range n * k {
			binary.LittleEndian.PutUint32(weights[p.Places[params[i].ID].Offset+4*int64(k):], math.Float32bits(v))
		}
	}
	set(0, 1.001)
	set(1, 4.001)
	exe, err := on.Load(t.Context(), device.Load{Program: p, Weights: weights, Precision: "bf16"})
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	b, err := program.NewBinder(p).Bind(nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &graphRun{p, b, tensor.AlignedBytes(int(p.IOSize)), exe}
	in := tensor.NewArray(dtype.F32, m, k)
	for i := range in.Floats {
		in.Floats[i] = 1
	}
	r.set("x", in)
	for i, want := range []float64{5 * k, 5 * k, 6 * k} {
		if i == 2 {
			clear(weights) // those that are not replaced are not valid
			set(0, 2.001)
			err := exe.(device.WeightSetter).SetWeights(t.Context(),
				device.NewWeights{Params: []int{params[0].ID}, Weights: weights})
			if err != nil {
				t.Fatal(err)
			}
		}
		if y := r.run(t); y.Floats[0] != want || y.Floats[m*n-1] != want {
			t.Errorf("run %d: %v; want %v", i, y.Floats[0], want)
		}
	}
}
