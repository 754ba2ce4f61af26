package backend

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/tensor"
)

// lstm is the cell of bench/loops/lstm.py.
const lstm = `graph cell
h = input : f32[1,H]
c = input : f32[1,H]
x = input : f32[1,H]
w = param : f32[2H,4H]
b = param : f32[4H]
xh = concat x, h {axis=1} : f32[1,2H]
m = matmul xh, w : f32[1,4H]
g = add m, b : f32[1,4H]
gi = narrow g {axis=1, len=H} : f32[1,H]
gf = narrow g {axis=1, len=H, start=H} : f32[1,H]
gg = narrow g {axis=1, len=H, start=2H} : f32[1,H]
go = narrow g {axis=1, len=H, start=3H} : f32[1,H]
i = sigmoid gi : f32[1,H]
f = sigmoid gf : f32[1,H]
t = tanh gg : f32[1,H]
o = sigmoid go : f32[1,H]
fc = mul f, c : f32[1,H]
it = mul i, t : f32[1,H]
d = add fc, it : f32[1,H]
u = tanh d : f32[1,H]
n = mul o, u : f32[1,H]
return n=n, d=d

graph main
h = input : f32[1,H]
c = input : f32[1,H]
x = input : f32[1000,1,H]
y = scan h, c, x {body=@cell, carried=2, steps=1, trajectory=true} : f32[1000,1,H]
return y=y
`

// BenchmarkLSTM reports the time of an iteration of an LSTM in a loop.
func BenchmarkLSTM(b *testing.B) {
	for _, hidden := range []int{16, 128, 512} {
		var sizes []string
		for k := 4; k > 0; k-- {
			sizes = append(sizes, fmt.Sprint(k, "H"), fmt.Sprint(k*hidden))
		}
		text := strings.NewReplacer(append(sizes, "H", fmt.Sprint(hidden))...).Replace(lstm)
		for _, threads := range []int{1, 2} {
			b.Run(fmt.Sprintf("%d/threads=%d", hidden, threads), func(b *testing.B) {
				g, err := ir.Parse(text)
				if err != nil {
					b.Fatal(err)
				}
				p, weights := compiled(b, g)
				e, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: threads,
					Weights: weights})
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize))}
				for b.Loop() {
					if _, err := e.Run(context.Background(), r); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1000/float64(b.N), "ns/iteration")
			})
		}
	}
}
