//go:build linux

package shim

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
	cpu "github.com/rlx-go/rlx/plugins/cpu/backend"
)

// TestPatches checks that im2col, and the transposition with which patch_embed cuts an image, make the same bytes as
// those of the cpu backend and of loops over the image. The image has NaNs with payloads, denormals and negative zeros.
func TestPatches(t *testing.T) {
	type size struct{ kernel, stride, padding, dilation [2]int }
	const n, c, h, w, p = 2, 3, 12, 20, 4
	cut := size{[2]int{p, p}, [2]int{p, p}, [2]int{}, [2]int{1, 1}}
	sizes := map[string]size{"im2col": cut, "transposed": cut,
		"padded": {[2]int{3, 2}, [2]int{2, 1}, [2]int{1, 2}, [2]int{1, 3}}}
	g := ir.NewGraph("patches")
	x := op.Input(g, "x", ir.TypeOf(dtype.F32, n, c, h, w))
	for _, name := range []string{"im2col", "padded"} {
		s := sizes[name]
		g.Return(
			name, op.Im2Col(
				x, op.Im2ColAttrs{Kernel: s.kernel[:], Stride: s.stride[:], Padding: s.padding[:],
					Dilation: s.dilation[:]}))
	}
	rows := op.Transpose(op.Reshape(x, ir.ShapeOf(n, c, h/p, p, w/p, p)), 0, 2, 4, 1, 3, 5)
	g.Return("transposed", op.Reshape(rows, ir.ShapeOf(n*(h/p)*(w/p), c*p*p)))
	prog, _, err := sched.Build(g, sched.Options{Target: "portable"})
	if err != nil {
		t.Fatal(err)
	}

	random := rand.New(rand.NewPCG(1, 16))
	special := []uint32{1 << 31, 1, 0x807fffff, 0x7f800001, 0xffc12345, 0x7f800000, math.Float32bits(1)}
	image := make([]uint32, n*c*h*w)
	for i := range image {
		image[i] = random.Uint32()
		if i%5 == 0 {
			image[i] = special[random.IntN(len(special))]
		}
	}
	prepare(t, []load{{prog, Options{Cache: dir, Level: "-O0"}}})
	for name, b := range map[string]device.Backend{"metal": New(Options{Cache: dir, Level: "-O0"}),
		"cpu": cpu.Backend{}} {
		e, err := b.Load(t.Context(), device.Load{Program: prog})
		if err != nil {
			t.Fatal(err)
		}
		places, err := prog.Bind(nil)
		if err != nil {
			t.Fatal(err)
		}
		io := tensor.AlignedBytes(int(prog.IOSize))
		for i, v := range image {
			binary.LittleEndian.PutUint32(io[places.Inputs[0].Offset+int64(4*i):], v)
		}
		if _, err := e.Run(t.Context(), device.Run{IO: io}); err != nil {
			t.Fatal(err)
		}
		for i, out := range prog.Graph.Outputs {
			s := sizes[out.Name]
			var want []byte
			for m := range n {
				for y := 0; y+s.dilation[0]*(s.kernel[0]-1) < h+2*s.padding[0]; y += s.stride[0] {
					for x := 0; x+s.dilation[1]*(s.kernel[1]-1) < w+2*s.padding[1]; x += s.stride[1] {
						for k := range c * s.kernel[0] * s.kernel[1] {
							from := m*c + k/(s.kernel[0]*s.kernel[1])
							at, along := y-s.padding[0]+k/s.kernel[1]%s.kernel[0]*s.dilation[0],
								x-s.padding[1]+k%s.kernel[1]*s.dilation[1]
							v := uint32(0)
							if at >= 0 && at < h && along >= 0 && along < w {
								v = image[(from*h+at)*w+along]
							}
							want = binary.LittleEndian.AppendUint32(want, v)
						}
					}
				}
			}
			place := places.Outputs[i]
			if got := io[place.Offset : place.Offset+place.Bytes]; !bytes.Equal(got, want) {
				t.Errorf("%s: %s has other bytes", name, out.Name)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
