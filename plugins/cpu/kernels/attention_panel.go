package kernels

import "math"

// attendPanel is attention of a panel of 32 queries by products of tiles: the queries against blocks of 32 keys,
//
//	o, l += sum over the keys of 2^(s - m) times (value, 1)    s = scale*(init + q·k) + row
//
// m is near the largest score of each query, so near that sums are far from overflow. Values are below 2^60 in magnitude. A weight has
// a relative error of 2^-13 and is then rounded to bfloat16; l sums the rounded weights.
//
// A tile is 16 rows of 64 bytes. A panel has two halves of 16 queries, one per column. Matrices are cut into these tiles:
//
//	q        [half][steps]        rows: pairs of elements of a query
//	k        [groups][steps]      rows: keys, as many bfloat16 as a row holds
//	v        [blocks][2*steps]    rows: elements of a value, by the keys of a block
//	o        [half][2*steps]      rows: elements of a value, float32
//	init     [half]               rows: keys of a group, float32; initHalf floats between the halves
//	row      [half][16]           float32, rowHalf floats between the halves
//	m, l     [half][16]
//
// A group is 16 keys, a block two groups. For each group, table holds the offsets of its tile of init and of its row, in bytes.
type attendPanel struct {
	steps, blocks int
	q, k, v       []float32
	table         []int32
	init, row     []float32
	initHalf      int
	rowHalf       int
	work          []float32 // attendWork floats with arbitrary contents
	o, m, l       []float32
	fresh         bool // o, m and l hold no keys yet: they are as clear sets them
	scale         float32
}

// clear sets o, m and l for no keys.
func (a *attendPanel) clear() {
	clear(a.o[:4*a.steps*tileFloats])
	clear(a.l[:2*groupSize])
	for i := range a.m[:2*groupSize] {
		a.m[i] = float32(math.Inf(-1))
	}
}

// termTiles is products of tiles, c = a·b, whose operands are sums of two bfloat16 each. items has three numbers for each tile of c: the
// offsets of its two operands and its own, in bytes. Each step of a is [16 rows, 32 bfloat16], each step of b pairs [16, bStride]. The
// strides count floats. Products of two low parts are left out.
type termTiles struct {
	steps            int
	items            []int32
	a, aLow          []float32
	b, bLow          []float32
	aStride, bStride int
	c                []float32
}

const (
	tileFloats = 256              // of a tile
	attendMost = 4                // steps
	attendWork = 2048 + 4096 + 80 // scores and weights of two blocks, and some vectors
)
