package matrix

import (
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/plugins/internal/gpu/kernels"
)

// Products of one row, as for each token of a language model. Their time is that of reading weights, so a kernel begins
// to read them while the one before it ends: it waits only before it reads x.

// Waits is the line of a text before which it waits for the kernel before it. It is a comment, so a text is also
// correct without.
const Waits = "  // rlx waits\n"

// vectorThreads is the number of threads of a block.
const vectorThreads = 256

// vectorWarps is the number of warps of a block.
const vectorWarps = vectorThreads / warpSize

const warpSize = 32

// vectorBlocks is the number of blocks for a processor that a product uses if it has more tiles.
const vectorBlocks = 2

// mostVectorShared is the largest amount of shared memory for a block, so that two fit on a processor.
const mostVectorShared = 110 << 10

// Vectors returns kernels.Limits.OwnVectors of a device. Nil means that it has no kernel.
func Vectors(d Device) func(v kernels.Vectors) (kernels.Shader, bool) {
	if d.Capability < 80 {
		return nil
	}
	return func(v kernels.Vectors) (s kernels.Shader, ok bool) {
		x, ok := d.vectorText(v)
		if !ok {
			return s, false
		}
		blocks := x.blocks()
		return kernels.Shader{
			Name: v.Name, Consts: x, Bindings: v.Bindings,
			Groups: func(*kernels.Call) int { return blocks },
			Source: func(views []kernels.View) (string, error) {
				var err error
				x := x
				x.Skips, err = skips(v.Bindings, views)
				return x.text(), err
			},
		}, true
	}
}

// vectorText generates the kernel.
type vectorText struct {
	kernels.Vectors
	Parts []vectorPart
	Skips []int64
	Most  int // most blocks; half as many more if each then has one tile
	Room  int // see packedRoom
}

// turns is the number of tiles of a block that have a number of rows.
func (x vectorText) turns(rows int) int {
	n := 0
	for i, p := range x.Products {
		if i == 0 || !x.Gated {
			n += ceilDiv(p.N, rows)
		}
	}
	if n <= x.Most+x.Most/vectorBlocks {
		return 1
	}
	return ceilDiv(n, x.Most)
}

// vectorPart is one or more products that a part of the blocks computes. Their weights have the same type.
type vectorPart struct {
	Type     dtype.DType
	Products []int
	Begin    []int // the first block of each product; the last element is the end of the last one
	Tiles    []int // of each product
}

func (d Device) vectorText(v kernels.Vectors) (x vectorText, ok bool) {
	x.Vectors, x.Most = v, vectorBlocks*d.Processors
	x.Room = max(leastRoom, min(packedRoom, d.Shared*3/7))
	first := v.Products[0]
	bytes, tiles := 0, 0
	for i, p := range v.Products {
		if activation(p.Act) == nil || !vectorType(p.Type, v.K) || p.N == 0 || p.N*rowBytes(p.Type, v.K) > mostBytes ||
			!alike(p, first, v.Gated) {
			return x, false
		}
		if k := len(x.Parts) - 1; k >= 0 && x.Parts[k].Type == p.Type {
			x.Parts[k].Products = append(x.Parts[k].Products, i)
		} else {
			x.Parts = append(x.Parts, vectorPart{Type: p.Type, Products: []int{i}})
		}
		if i == 0 || !v.Gated {
			tiles += x.tiles(i)
			bytes += p.N * rowBytes(p.Type, v.K)
		}
	}
	if v.Norm && v.K > mostNormed || x.shared() > min(mostVectorShared, d.Shared) {
		return x, false
	}
	begin := 0
	for k := range x.Parts {
		p := &x.Parts[k]
		for j, i := range p.Products {
			if j > 0 && v.Gated {
				break
			}
			n := x.tiles(i)
			p.Begin, p.Tiles = append(p.Begin, begin), append(p.Tiles, n)
			if tiles > x.Most+x.Most/vectorBlocks {
				n = max(1, min(n, x.Most*v.Products[i].N*rowBytes(p.Type, v.K)/bytes))
			}
			begin += n
		}
		p.Begin = append(p.Begin, begin)
	}
	return x, true
}

// alike reports whether a kernel can compute two products. If they are gated, a block computes both, and otherwise one.
func alike(p, first kernels.VectorProduct, gated bool) bool {
	if gated {
		return p.Type == first.Type && p.N == first.N
	}
	return p.Act == first.Act && p.Bias == first.Bias && p.Residual == first.Residual &&
		p.Type.IsPacked() == first.Type.IsPacked()
}

// mostNormed is the largest K of a row that is normalised.
const mostNormed = 8192

// vectorType reports whether rows of K weights of a type can be read.
func vectorType(d dtype.DType, k int) bool {
	switch d {
	case dtype.BF16, dtype.F16, dtype.F32:
		return k%8 == 0 && k > 0 && k <= 24<<10
	}
	return decoders[d] != nil && k%256 == 0 && k > 0 && rowBytes(d, k)%16 == 0
}

// rowBytes is the size of K weights of a type.
func rowBytes(d dtype.DType, k int) int {
	if !d.IsPacked() {
		return k * d.Size()
	}
	return k / d.Values() * d.Size()
}

// blocks is the number of blocks.
func (x vectorText) blocks() int {
	last := x.Parts[len(x.Parts)-1].Begin
	return last[len(last)-1]
}

// tiles is the number of tiles of a product, which are the rows that a block computes at a time.
func (x vectorText) tiles(i int) int { return ceilDiv(x.Products[i].N, x.tileRows(x.Products[i].Type)) }

func (x vectorText) tileRows(d dtype.DType) int {
	if decoders[d] != nil {
		return x.packed(d).tileRows()
	}
	return x.plain(d).tileRows(x.Gated)
}

// shared is the size of shared memory in bytes.
func (x vectorText) shared() int {
	most := 0
	for _, p := range x.Parts {
		if decoders[p.Type] != nil {
			most = max(most, x.packed(p.Type).shared())
		} else {
			most = max(most, x.plain(p.Type).shared())
		}
	}
	return most
}
