package conv

import (
	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/product"
)

// Packed holds weights that are the same in every call with it, packed by the first call that needs them so. A network
// for small images spends most of its time on reading weights, so packing them in each run may take longer than the
// products.
type Packed struct {
	left   []float32 // as the left operand; see convBlocks
	right  []float32 // as the right operand; see few
	pixels []float32 // see packPixels
	tiny   []float32 // the same for tiny images
	// Transformed for Winograd's algorithm, and the largest magnitude. It is infinite if they cannot be used.
	winograd []float32
	largest  float64
	direct   bool      // with channels last, the transformed weights cannot be used
	phases   []float32 // of a transpose; see convPhases
	taps     int       // that phases has

	last []float32 // see packLast

	patches *product.PackedWeights // see inPatches
	// A weight is not finite, and there is padding: each call computes the convolution by its definition.
	bad bool
}

// PackedSize returns the bytes that Packed keeps for a convolution of this size. If varies is set, calls have images of
// other sizes too.
func (g *Args) PackedSize(p *pool.Pool, varies bool) (n int64) {
	if g.empty() {
		return 0
	}
	c := convolution{Args: *g, p: p, cg: g.Cin / g.Groups, og: g.Cout / g.Groups, out: g.OutSize()}
	c.Packed = &Packed{}
	c.k = c.cg * elementwise.Volume(g.Kernel)
	switch {
	case g.Last && lastOn(p.Set).tile != nil:
		n = pool.FloatBytes(c.lastWeights())
		if c.suitsWinogradLast() && (varies || c.fasterByWinograd()) {
			// weights that do not suit are packed in their place
			more := pool.FloatBytes(c.winogradLastSize())
			if varies { // images of some sizes are convolved directly
				more += n
			}
			n = max(n, more)
		}
	case g.Last:
	case g.Transposed:
		c.list()
		n = pool.FloatBytes(c.phasesSize())
	case c.byChannel():
		n = pool.FloatBytes(c.pixelWeights())
		if varies { // some images may be tiny
			n *= 2
		}
	case c.inPatches():
		q := c.patchProduct(1)
		n = q.KeptSize(p)
	default:
		if c.byWinograd() {
			n = pool.FloatBytes(c.winogradSize())
			if !varies {
				break
			}
		}
		if few := c.fewElements(); few || varies {
			n += pool.FloatBytes(c.rightSize())
			if few && !varies {
				break
			}
		}
		n += pool.FloatBytes(c.leftSize())
	}
	return n
}

// forPixels returns where the weights are kept that packPixels packs.
func (k *Packed) forPixels(g *convolution) *[]float32 {
	if g.tiny() {
		return &k.tiny
	}
	return &k.pixels
}

// leftSize returns the number of floats of all blocks of packed weights.
func (g *convolution) leftSize() int { return g.Groups * g.blocks() * g.blockSize() }

// packLeft sets left to the packed weights of all groups. It stores 1 in Bad if the products cannot be used.
func (g *convolution) packLeft() {
	p, kept := g.p, g.Packed
	if kept != nil && kept.left != nil {
		g.left = kept.left
		g.refuse()
		return
	}
	g.order()
	if kept == nil {
		g.left = p.Shared.Floats(g.leftSize())
	} else {
		g.left = make([]float32, g.leftSize())
	}
	p.Share(g.Groups*g.blocks(), 1, (*convBlocks)(g))
	if kept != nil {
		kept.left, kept.bad = g.left, kept.bad || p.Bad.Load() != 0
	}
}

// phasesSize returns the number of floats of all blocks of the packed weights of all phases.
func (g *convolution) phasesSize() int {
	return g.Groups * g.blocks() * (g.blockRows()*g.cg*len(g.taps) + product.Spill*len(g.phases))
}

// packPhases sets packed to the weights of all phases of a transpose. It stores 1 in Bad if the products cannot be
// used.
func (g *convolution) packPhases() {
	p, kept, size := g.p, g.Packed, g.phasesSize()
	switch {
	case kept == nil:
		g.packed = p.Shared.Floats(size)
	case kept.taps == len(g.taps) && len(kept.phases) == size: // a very small result lacks phases
		g.packed = kept.phases
		g.refuse()
		return
	default:
		g.packed = make([]float32, size)
	}
	p.Share(g.Groups*g.blocks(), 1, (*convPhases)(g))
	if kept != nil {
		kept.phases, kept.taps, kept.bad = g.packed, len(g.taps), kept.bad || p.Bad.Load() != 0
	}
}

// refuse stores 1 in Bad if the weights that are kept cannot be multiplied by padding.
func (g *convolution) refuse() {
	if g.Packed.bad {
		g.p.Bad.Store(1)
	}
}

// packRight sets right to the packed weights of all groups. It stores 1 in Bad if the products cannot be used.
func (g *convolution) packRight() {
	p, kept := g.p, g.Packed
	if kept.right == nil {
		kept.right = make([]float32, g.rightSize())
		nr := product.On(p.Set).NR
		for i := range g.Groups {
			q := product.GemmArgs{N: g.og, K: g.k, B: g.Weight.From(i * g.og * g.k), LDB: g.k, TransB: true}
			product.PackPanels(p, &q, kept.right[i*g.panels*nr*g.k:], 0, 1, 0, g.panels)
		}
		g.checkAll()
	}
	g.right = kept.right
	g.refuse()
}

// checkAll sets bad of the weights that are kept, as check does for some.
func (g *convolution) checkAll() {
	row := make([]float32, min(1<<12, g.Cout*g.k))
	for at, n := 0, g.Cout*g.k; at < n; at += len(row) {
		row = row[:min(len(row), n-at)]
		g.check(g.Weight.Row(g.p.Set, at, len(row), row))
	}
	g.Packed.bad = g.Packed.bad || g.p.Bad.Load() != 0
}
