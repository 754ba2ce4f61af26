package attention

import "math"

// attendPanel describes attention for a panel of 32 queries, computed in AMX tiles with blocks of 32 keys:
//
//	o, l += sum over the keys of 2^(s - m) times (value, 1)    s = scale*(init + q·k) + row
//
// m is the largest score of each query, or close enough to it that the sums cannot overflow. Values must be below 2^60
// in magnitude. A weight 2^(s - m) has a relative error of 2^-13 and is then rounded to bfloat16; l sums the rounded
// weights.
//
// A tile is 16 rows of 64 bytes. A panel has two halves of 16 queries, one query per column. Matrices consist of these
// tiles:
//
//	q        [half][steps]        rows: pairs of elements of a query
//	k        [groups][steps]      rows: keys, as many bfloat16 as a row holds
//	v        [blocks][2*steps]    rows: elements of a value, by the keys of a block
//	o        [half][2*steps]      rows: elements of a value, float32
//	init     [half]               rows: keys of a group, float32; initHalf floats between the halves
//	row      [half][16]           float32, rowHalf floats between the halves
//	m, l     [half][16]
//
// A group is 16 keys, a block two groups, and a step 32 elements of a query, key or value. For each group, table holds
// the byte offsets of its tile in init and of its vector in row.
type attendPanel struct {
	steps, blocks int
	q, k, v       []float32
	table         []int32
	init, row     []float32
	initHalf      int
	rowHalf       int
	work          []float32 // attendWork floats with arbitrary contents
	o, m, l       []float32
	fresh         bool // no keys have been added: o, m and l are as clear sets them
	scale         float32
}

// clear sets o and l to 0 and m to -Inf.
func (a *attendPanel) clear() {
	clear(a.o[:4*a.steps*tileFloats])
	clear(a.l[:2*groupSize])
	for i := range a.m[:2*groupSize] {
		a.m[i] = float32(math.Inf(-1))
	}
}

// termTiles describes products of tiles, c = (a + aLow)·(b + bLow), whose operands are sums of two bfloat16, nearly as
// precise as float32. The product of the two low parts is left out. items has three numbers for each tile of c: the
// byte offsets of its operands in a and b, and of the tile in c. Each step of a is [16 rows, 32 bfloat16], each step of
// b is pairs [16, bStride]. Strides count floats.
type termTiles struct {
	steps            int
	items            []int32
	a, aLow          []float32
	b, bLow          []float32
	aStride, bStride int
	c                []float32
}

const (
	tileFloats = 256              // floats of a tile
	attendMost = 4                // maximum number of steps of attend
	attendWork = 2048 + 4096 + 80 // scores and weights of two blocks, and some vectors
)
