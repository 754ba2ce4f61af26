package kernels

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlx-go/rlx/core/dtype"
)

func pixel(last bool, c, h, w, channels, height, width, n int) int {
	if last {
		return ((n*height+h)*width+w)*channels + c
	}
	return ((n*channels+c)*height+h)*width + w
}

// conv64 is the definition: convolution gathers, its transpose scatters.
func conv64(g *Conv2DArgs, transposed bool) []float64 {
	ho, wo := g.OutSize()
	if transposed {
		ho, wo = g.OutSizeTransposed()
	}
	out := make([]float64, g.N*ho*wo*g.Cout)
	cg, og := g.Cin/g.Groups, g.Cout/g.Groups
	for n := range g.N {
		for o := range g.Cout {
			for c := range cg {
				ci := o/og*cg + c
				for ky := range g.KH {
					for kx := range g.KW {
						wi := ((o*cg+c)*g.KH+ky)*g.KW + kx
						if transposed {
							wi = ((ci*og+o%og)*g.KH+ky)*g.KW + kx
						}
						w := float64(weightAt(g.Weight, wi))
						if transposed {
							for y := range g.H {
								for x := range g.W {
									oy, ox := y*g.Stride[0]-g.Pad[0]+ky*g.Dilation[0], x*g.Stride[1]-g.Pad[1]+kx*g.Dilation[1]
									if oy >= 0 && oy < ho && ox >= 0 && ox < wo {
										out[pixel(g.OutLast, o, oy, ox, g.Cout, ho, wo, n)] += w * float64(g.X[pixel(g.XLast, ci, y, x, g.Cin, g.H, g.W, n)])
									}
								}
							}
							continue
						}
						for oy := range ho {
							for ox := range wo {
								y, x := oy*g.Stride[0]-g.Pad[0]+ky*g.Dilation[0], ox*g.Stride[1]-g.Pad[1]+kx*g.Dilation[1]
								if y >= 0 && y < g.H && x >= 0 && x < g.W {
									out[pixel(g.OutLast, o, oy, ox, g.Cout, ho, wo, n)] += w * float64(g.X[pixel(g.XLast, ci, y, x, g.Cin, g.H, g.W, n)])
								}
							}
						}
					}
				}
			}
			for y := range ho {
				for x := range wo {
					p := &out[pixel(g.OutLast, o, y, x, g.Cout, ho, wo, n)]
					if g.Bias != nil {
						*p += float64(g.Bias[o])
					}
					*p = reference64(g.Act, *p)
				}
			}
		}
	}
	return out
}

func randomConv(r *rand.Rand, transposed bool) *Conv2DArgs {
	g := &Conv2DArgs{N: 1 + r.IntN(2), KH: 1 + r.IntN(4), KW: 1 + r.IntN(4), Groups: 1 + r.IntN(3)*r.IntN(2),
		Stride: [2]int{1 + r.IntN(3), 1 + r.IntN(3)}, Dilation: [2]int{1 + r.IntN(2), 1 + r.IntN(2)}, XLast: r.IntN(2) == 0, OutLast: r.IntN(2) == 0}
	g.H, g.W = 8+r.IntN(8), 8+r.IntN(8)
	g.Cin, g.Cout = g.Groups*(1+r.IntN(6)), g.Groups*(1+r.IntN(40))
	if r.IntN(2) == 0 {
		g.Pad = [2]int{r.IntN(g.KH), r.IntN(g.KW)}
	}
	switch r.IntN(4) {
	case 0: // patches that do not overlap
		g.Stride, g.Dilation, g.Pad, g.Groups = [2]int{g.KH, g.KW}, [2]int{1, 1}, [2]int{}, 1
	case 1: // 1x1
		g.KH, g.KW, g.Stride, g.Pad, g.Dilation = 1, 1, [2]int{1, 1}, [2]int{}, [2]int{1, 1}
	case 2:
		if transposed {
			g.OutputPad = [2]int{r.IntN(g.Stride[0]), r.IntN(g.Stride[1])}
		}
	}
	g.X = randoms(r, g.N*g.H*g.W*g.Cin)
	g.Weight = randomWeights(r, []dtype.DType{dtype.F32, dtype.F16, dtype.BF16}[r.IntN(3)], g.Cin*g.Cout/g.Groups*g.KH*g.KW)
	if r.IntN(2) == 0 {
		g.Bias = randoms(r, g.Cout)
	}
	g.Act = []UnaryOp{Identity, Relu, Gelu}[r.IntN(3)]
	return g
}

func TestConv2D(t *testing.T) {
	eachPool(t, func(t *testing.T, p *Pool) {
		r := rng(1)
		for range 150 {
			for _, transposed := range []bool{false, true} {
				g := randomConv(r, transposed)
				want := conv64(g, transposed)
				dst, check := guarded(len(want))
				g.Out = dst
				if transposed {
					ConvTranspose2D(p, g)
				} else {
					Conv2D(p, g)
				}
				what := fmt.Sprintf("transposed %v, %d x [%d %d %d] k %dx%d to %d, stride %v pad %v dilation %v groups %d, last %v %v, %v", transposed, g.N, g.Cin, g.H,
					g.W, g.KH, g.KW, g.Cout, g.Stride, g.Pad, g.Dilation, g.Groups, g.XLast, g.OutLast, g.Act)
				check(t, what)
				compare(t, what, dst, want, 1e-5, 1e-5)
			}
		}
	})
}

func TestConv2DThreads(t *testing.T) {
	sameForAnyThreads(t, func(p *Pool) []float32 {
		g := randomConv(rng(2), false)
		g.H, g.W, g.Stride = 30, 31, [2]int{1, 1}
		g.X = randoms(rng(3), g.N*g.H*g.W*g.Cin)
		h, w := g.OutSize()
		g.Out = make([]float32, g.N*h*w*g.Cout)
		Conv2D(p, g)
		return g.Out
	})
}

func BenchmarkConv2D(b *testing.B) {
	for _, c := range []struct {
		name string
		g    Conv2DArgs
	}{
		{"neck3x3", Conv2DArgs{N: 1, H: 64, W: 64, Cin: 256, Cout: 256, KH: 3, KW: 3, Stride: [2]int{1, 1}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1, XLast: true, OutLast: true}},
		{"patches", Conv2DArgs{N: 1, H: 1024, W: 1024, Cin: 3, Cout: 768, KH: 16, KW: 16, Stride: [2]int{16, 16}, Dilation: [2]int{1, 1}, Groups: 1, OutLast: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newPool(b, 0, "")
			g := c.g
			r := rng(1)
			h, w := g.OutSize()
			g.X, g.Weight, g.Out = randoms(r, g.H*g.W*g.Cin), F32(randoms(r, g.Cin*g.Cout*g.KH*g.KW)), make([]float32, h*w*g.Cout)
			for b.Loop() {
				Conv2D(p, &g)
			}
			b.ReportMetric(float64(b.N)*2*float64(h*w*g.Cout*g.Cin*g.KH*g.KW)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
