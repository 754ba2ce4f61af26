package kernels

// ownPanels are the panels of a small B, which every worker packs for itself: to fetch what another worker has just written takes
// longer than to pack it, as long as a worker's share of the rows is far more work.
type ownPanels struct {
	panels [][]float32 // by worker
	packed []bool
}

const (
	ownSize = 1 << 18 // elements of B at most
	ownRows = 64      // rows for each worker at least
)

// begin allocates the memory of a product.
func (o *ownPanels) begin(workers, size int) {
	if o.panels == nil {
		o.panels, o.packed = make([][]float32, workers), make([]bool, workers)
	}
	for i := range o.panels {
		o.panels[i] = resized(o.panels[i], size)
	}
	clear(o.packed)
}

// of is the panels of a worker, packed if they are not yet.
func (o *ownPanels) of(b *gemmBlocks, w int) []float32 {
	if !o.packed[w] {
		o.packed[w] = true
		all := panelPacking{p: b.p, g: *b.g, packed: o.panels[w], width: b.width}
		all.do(0, b.width, w)
	}
	return o.panels[w]
}
