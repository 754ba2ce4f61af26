package kernels

// ownPanels are the panels of a small B, of which every worker packs its own copy. Fetching cache lines that another worker has just
// written takes longer than packing, and both take little time next to a worker's share of the rows.
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

// of returns the panels of a worker and packs them at the first call.
func (o *ownPanels) of(b *gemmBlocks, w int) []float32 {
	if !o.packed[w] {
		o.packed[w] = true
		all := panelPacking{p: b.p, g: *b.g, packed: o.panels[w], width: b.width}
		all.do(0, b.width, w)
	}
	return o.panels[w]
}
