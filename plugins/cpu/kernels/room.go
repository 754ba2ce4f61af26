package kernels

import "reflect"

// Room is the memory that a kernel computes in beside its operands, in bytes, at most. What does not grow with the operands is left
// out.
type Room struct {
	Shared int64 // of the scratch memory that all workers share
	Worker int64 // of that of each worker
	Other  int64 // allocated by itself, and kept for the next kernel of the kind
	Packed int64 // weights that are packed once and stay
}

// With is the room for one kernel after the other.
func (r Room) With(o Room) Room {
	return Room{max(r.Shared, o.Shared), max(r.Worker, o.Worker), max(r.Other, o.Other), r.Packed + o.Packed}
}

// Bytes is what the room takes in all. Go makes an allocation, and a slice that grows, up to a quarter larger.
func (r Room) Bytes(p *Pool) int64 {
	own := r.Other + r.Packed
	return r.Shared + int64(len(p.workers))*r.Worker + own + own/4
}

// Reserve takes the scratch memory in which kernels will compute from allocate, which gives that many, aligned to 64 bytes.
// Without it the pool finds out by growing its memory, and holds for a while what has become too small.
func (p *Pool) Reserve(r Room, allocate func(floats int64) ([]float32, error)) error {
	err := p.shared.reserve(r.Shared, allocate)
	for i := 0; i < len(p.workers) && err == nil; i++ {
		err = p.workers[i].scratch.reserve(r.Worker, allocate)
	}
	return err
}

func (s *scratch) reserve(bytes int64, allocate func(floats int64) ([]float32, error)) (err error) {
	if bytes > 4*int64(len(s.block)) {
		s.block, err = allocate(bytes / 4)
	}
	return err
}

// floats is the size of slices of these lengths as scratch.floats hands them out.
func floats(lengths ...int) (n int64) {
	for _, l := range lengths {
		n += 4 * int64((l+15)&^15)
	}
	return n
}

// sizeOf is the size of n values of type T.
func sizeOf[T any](n int) int64 { return int64(n) * int64(reflect.TypeFor[T]().Size()) }

// Room is for Gemm of up to as many rows, columns and products, K as long and, with weights that do not change, for PackWeights. Of g
// only sizes, precision, activation and transposition count; any residual may be C itself.
func (g *GemmArgs) Room(p *Pool, fixed bool) (r Room) {
	s, way := p.isa, p.isa.packing(g.Precision)
	kb, depth, panels := way.kSplit(g.K), g.depth(way), (g.N+s.nr-1)/s.nr
	blocks := (g.K + kb - 1) / kb
	matrix := panels*s.nr*depth + spill // B, packed
	// Blocks of some rows of A by some panels of B, or all rows by a panel.
	high, few := min(way.rows(g.M), 8*s.mr), min(g.M, 4*s.mr)
	if way == tiled {
		high = min(way.rows(g.M), 16*tileSide)
	}
	end := floats(s.mr * s.nr)
	if way == tiled {
		end = floats(high*tileSide, tileSide*tileSide, tileSide, high*tileSide)
	}
	if g.Act != Identity {
		end += floats(high * g.N) // the residual, which the product is written over
	}
	turned := func(rows int) int64 {
		if way != tiled || !g.TransA {
			return 0
		}
		return int64(blocks) * floats(rows*kb)
	}
	pack := floats(s.lanes*kb + way.buffer(s.nr, kb))
	r.Worker = max(floats(way.rows(high)*depth+spill, way.buffer(s.mr, kb))+turned(high)+end+pack, floats(depth*s.nr+spill)+end+pack, floats(g.K, gemvStrip))
	packed := max(s.nr*depth, min(p.packedLimit, max(1, g.Batch)*min(matrix, p.packedLimit)))
	r.Shared = max(floats(packed+spill), floats(way.rows(few)*depth+spill, way.buffer(s.mr, kb))+turned(few))
	if n := len(p.workers); n > 1 && g.M >= ownRows*n && way != tiled {
		r.Other = int64(n) * floats(min(matrix, ownSize+s.nr*(depth+g.K)))
	}
	if fixed && p.TakesSquares(g.Precision) {
		r.Packed = floats(matrix)
	}
	return r
}

// Room is for Conv2D, or for ConvTranspose2D.
func (g *Conv2DArgs) Room(p *Pool, transposed bool) Room {
	s := p.isa
	if g.Groups < 1 || g.Cin%g.Groups != 0 || g.Cout%g.Groups != 0 {
		panic("BUG: room for a convolution in groups that do not fit")
	}
	og, k := g.Cout/g.Groups, g.Cin/g.Groups*g.KH*g.KW
	high := (&convolution{p: p}).high()
	r := Room{
		Shared: floats(g.Groups*((og+s.nr-1)/s.nr)*s.nr*k+spill, g.Cout*k),
		Worker: floats(high*k, high*k+spill, high*g.Cout, s.lanes*kBlock, s.mr*s.nr),
		Other:  floats(g.KH*g.KW) + sizeOf[GemmArgs](g.Groups),
	}
	if transposed { // disjoint
		one := GemmArgs{M: g.W, N: g.KW * g.Cout, K: g.Cin, Batch: g.N * g.H, Act: g.Act}
		gemm := one.Room(p, false)
		gemm.Other += floats(g.Cin*one.N, one.N, g.Cout*g.KH*g.KW)
		return r.With(gemm)
	}
	plain := GemmArgs{M: g.N * g.H * g.W, N: g.Cout, K: g.Cin, TransB: true, Act: g.Act}
	return r.With(plain.Room(p, false))
}

// TopKRoom is for TopK.
func TopKRoom(p *Pool, k int) Room { return Room{Other: int64(len(p.workers)) * sizeOf[ranked](k)} }
