package layout

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
)

// Padding says what positions outside of an image read.
type Padding int

// The paddings of op.GridSampleDef.
const (
	PadZeros Padding = iota
	PadBorder
	PadReflection
)

// gridFar is op.GridFar.
const gridFar = 1 << 22

// Samples are the arguments of GridSample; see op.GridSampleDef. Images is [Count, Channels, sizes...], Grid is
// [Count, Positions, Axes], and Dst is [Count, Channels, Positions].
type Samples struct {
	Dst, Images, Grid          []float32
	Count, Channels, Positions int
	Axes                       int
	Size                       [8]int // of the axes
	Taps                       int    // elements along each axis: 1, 2 or 4
	Padding                    Padding
	Corners                    bool
}

const (
	// sampleReads is about how many elements the positions read that are computed at a time.
	sampleReads = 1024
	// sampleChannels is how many channels use positions once they are computed.
	sampleChannels = 16
)

// combinations returns how many elements a position reads.
func (g *Samples) combinations() int {
	n := 1
	for range g.Axes {
		n *= g.Taps
	}
	return n
}

func (g *Samples) tile() int { return max(1, sampleReads/g.combinations()) }

// GridSample computes op.GridSampleDef.
func GridSample(p *pool.Pool, g Samples) {
	area := 1
	for _, n := range g.Size[:g.Axes] {
		area *= n
	}
	if len(g.Images) < g.Count*g.Channels*area || len(g.Grid) < g.Count*g.Positions*g.Axes ||
		len(g.Dst) < g.Count*g.Channels*g.Positions {
		panic("BUG: GridSample: a slice is short")
	}
	reads, tile := g.combinations(), g.tile()
	s := samples{Samples: g, p: p, area: area, reads: reads, tiles: pool.CeilDiv(g.Positions, tile),
		groups: pool.CeilDiv(g.Channels, sampleChannels)}
	work := min(tile, g.Positions) * reads * min(g.Channels, sampleChannels)
	pool.Split(p, g.Count*s.tiles*s.groups, 1+pool.Grain/max(1, 4*work), s)
}

// GridSampleScratch returns what GridSample needs.
func GridSampleScratch(g Samples) pool.Size {
	n := g.tile() * g.combinations()
	return pool.Size{Worker: pool.FloatBytes(n) + pool.SizeOf[int](n)}
}

// samples computes groups of channels at the positions of a tile.
type samples struct {
	Samples
	p             *pool.Pool
	area, reads   int
	tiles, groups int
}

func (g *samples) Do(lo, hi, worker int) {
	sc, tile := g.p.Scratch(worker), g.tile()
	sc.At = pool.Sized(sc.At, tile*g.reads)
	at, weight := sc.At, sc.Floats(tile*g.reads)
	was := -1
	for i := lo; i < hi; i++ {
		part, group := i/g.groups, i%g.groups
		image, first := part/g.tiles, part%g.tiles*tile
		n := min(tile, g.Positions-first)
		if part != was {
			for k := range n {
				g.place(g.Grid[(image*g.Positions+first+k)*g.Axes:][:g.Axes], at[k*g.reads:][:g.reads],
					weight[k*g.reads:][:g.reads])
			}
			was = part
		}
		for c := group * sampleChannels; c < min(g.Channels, (group+1)*sampleChannels); c++ {
			plane := image*g.Channels + c
			g.sum(g.Dst[plane*g.Positions+first:][:n], g.Images[plane*g.area:][:g.area], at, weight)
		}
	}
}

// sum adds up the elements that positions read. Those of -1 add nothing.
func (g *samples) sum(dst, plane []float32, at []int, weight []float32) {
	if g.reads == 4 {
		sumFour(dst, plane, at, weight)
		return
	}
	for k := range dst {
		var sum float32
		w := weight[k*g.reads:][:g.reads]
		for j, i := range at[k*g.reads:][:g.reads] {
			if i >= 0 {
				sum += w[j] * plane[i]
			}
		}
		dst[k] = sum
	}
}

func sumFour(dst, plane []float32, at []int, weight []float32) {
	for k := range dst {
		i, w := at[4*k:][:4], weight[4*k:][:4]
		if i[0]|i[1]|i[2]|i[3] >= 0 {
			dst[k] = w[0]*plane[i[0]] + w[1]*plane[i[1]] + w[2]*plane[i[2]] + w[3]*plane[i[3]]
			continue
		}
		var sum float32
		for j, i := range i {
			if i >= 0 {
				sum += w[j] * plane[i]
			}
		}
		dst[k] = sum
	}
}

// place sets the elements that a position reads, and their weights. The first axis changes most slowly.
func (g *samples) place(grid []float32, at []int, weight []float32) {
	at[0], weight[0] = 0, 1
	filled := 1
	for axis := range g.Axes {
		size := g.Size[axis]
		var places [4]int
		var weights [4]float32
		g.along(grid[g.Axes-1-axis], size, &places, &weights)
		for j := filled - 1; j >= 0; j-- { // backwards, because the results lie over what they come from
			before, w := at[j], weight[j]
			for l := g.Taps - 1; l >= 0; l-- {
				k := j*g.Taps + l
				at[k], weight[k] = before*size+places[l], float32(w*weights[l])
				if before < 0 || places[l] < 0 {
					at[k] = -1
				}
			}
		}
		filled *= g.Taps
	}
}

// along sets the elements that coordinate x reads along an axis, and their weights.
func (g *samples) along(x float32, size int, at *[4]int, weight *[4]float32) {
	lo, span, last := float32(-0.5), float32(size), float32(size-1)
	var p float32
	if g.Corners {
		lo, span = 0, last
		p = (x + 1) / 2 * last
	} else {
		p = (float32((x+1)*span) - 1) / 2
	}
	if g.Taps == 1 {
		p = float32(math.RoundToEven(float64(p)))
	}
	near := p > -gridFar && p < gridFar // not NaN
	switch g.Padding {
	case PadZeros:
		if !near {
			p = -4 // where nothing is inside
		}
	case PadBorder:
		switch {
		case p != p:
			p = 0
		case p < lo || p > lo+span:
			p = min(max(p, 0), last)
		}
	default:
		if !near {
			p = 0
		}
		p = mirrored(p, lo, span)
	}
	first := float32(math.Floor(float64(p)))
	t := p - first
	switch g.Taps {
	case 1:
		weight[0] = 1
	case 2:
		weight[0], weight[1] = 1-t, t
	default:
		first--
		weight[0], weight[1], weight[2], weight[3] = keysFar(t+1), keysNear(t), keysNear(1-t), keysFar(2-t)
	}
	for i := range g.Taps {
		e := first + float32(i)
		if g.Padding == PadReflection {
			e = mirrored(e, lo, span)
		}
		at[i] = int(min(max(e, 0), last))
		if g.Padding == PadZeros && (e < 0 || e > last) {
			at[i] = -1
		}
	}
}

// mirrored reflects p at lo and lo+span until it is between them.
func mirrored(p, lo, span float32) float32 {
	switch {
	case p >= lo && p <= lo+span:
		return p
	case span == 0:
		return lo
	}
	period := 2 * span
	t := float32(math.Mod(float64(p-lo), float64(period)))
	if t < 0 {
		t += period
	}
	return min(t, period-t) + lo
}

// keysNear and keysFar are the weights of elements at a distance of 0 to 1, and of 1 to 2; see op.GridSampleDef.
func keysNear(x float32) float32 {
	const a = -0.75
	return float32(float32(float32(float32((a+2)*x)-(a+3))*x)*x) + 1
}

func keysFar(x float32) float32 {
	const a = -0.75
	return float32((float32((float32(a*x)-5*a)*x)+8*a)*x) - 4*a
}
