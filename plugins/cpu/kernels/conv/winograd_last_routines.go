package conv

import (
	"unsafe"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
)

// winogradIn describes tiles of 4x4 pixels. Routines in assembly change it. Distances are in bytes. For the addresses
// see lastTiles.
type winogradIn struct {
	tiles         uintptr // of winogradTile
	count         int
	x, zeros, dst uintptr
	apart, ldd    int // from an element of all transformed tiles to the next, and from a tile to the next
	vectors       int // of channels of x
	mask          uintptr
	at            [16]uintptr // of the routine
}

// winogradOut describes products of tiles, likewise.
type winogradOut struct {
	tiles                       uintptr
	count                       int
	src                         uintptr
	apart, lds                  int
	vectors                     int // of channels of the result
	mask                        uintptr
	bias, dst, addend, residual uintptr // of the first of these channels
	line, pixel                 int     // from a line of the result to the next, and from a pixel to the next
	does                        int
}

// winogradLastRoutines transform tiles for convolutions with channels last by Winograd's algorithm.
type winogradLastRoutines struct {
	// in stores element (i, j) of B^T d B of each tile d at dst + (4*i+j)*apart.
	in func(w *winogradLast, k *winogradLastWork)
	// out stores A^T m A of each tile, after bias and epilogue. Element (i, j) of m is at src + (4*i+j)*apart.
	out func(w *winogradLast, k *winogradLastWork)
	// seen sets the first half of seen to the largest magnitudes of each channel of x, and the second half to their
	// sums. A NaN makes a sum NaN.
	seen func(seen, x []float32, channels int)
}

var winogradLastTable isa.Table[winogradLastRoutines]

func init() {
	winogradLastTable.Add(isa.Generic, func() *winogradLastRoutines {
		return &winogradLastRoutines{in: winogradLastIn, out: winogradLastOut, seen: winogradLastSeen}
	})
}

// winogradLastOn returns the routines of a set. They are nil if the set has none.
func winogradLastOn(s *isa.Set) *winogradLastRoutines { return winogradLastTable.On(s) }

// addressOfInts returns the address of places.
func addressOfInts(s []int) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(s))) }

// winogradLastIn transforms tiles in Go.
func winogradLastIn(w *winogradLast, k *winogradLastWork) {
	for i := range k.tiles {
		tile := &k.tiles[i]
		lines := w.lines[(tile.lines-addressOfInts(w.lines[:]))/8:][:4]
		columns := w.columns[(tile.columns-addressOfInts(w.columns[:]))/8:][:4]
		for c := range w.Cin {
			var d, t [4][4]float32
			for y, line := range lines {
				for x, column := range columns {
					if line >= 0 && column >= 0 {
						d[y][x] = w.X[(tile.x+line+column)/4+c]
					}
				}
			}
			for x := range 4 {
				t[0][x], t[1][x] = d[0][x]-d[2][x], d[1][x]+d[2][x]
				t[2][x], t[3][x] = d[2][x]-d[1][x], d[1][x]-d[3][x]
			}
			for y, r := range t {
				at := k.made[4*y*k.apart+i*w.ldd+c:]
				at[0], at[k.apart] = r[0]-r[2], r[1]+r[2]
				at[2*k.apart], at[3*k.apart] = r[2]-r[1], r[1]-r[3]
			}
		}
	}
}

// winogradLastOut transforms products back in Go.
func winogradLastOut(w *winogradLast, k *winogradLastWork) {
	o, products, lanes := &k.out, k.products.Out, w.p.Set.Lanes
	first, apart := within(w.Out, o.dst), o.apart/4
	for i := range k.tiles {
		tile := &k.tiles[i]
		for c := range (o.vectors-1)*lanes + int(o.mask) {
			var s [2][4]float32
			for j := range 4 {
				m := products[j*apart+i*o.lds/4+c:]
				s[0][j] = m[4*apart] + m[8*apart] + m[0]
				s[1][j] = m[4*apart] - m[8*apart] - m[12*apart]
			}
			for e := range 4 {
				if tile.inside>>e&1 == 0 {
					continue
				}
				r, at := s[e/2], (tile.out+e/2*o.line+e%2*o.pixel)/4+first+c
				v := r[1] + r[2] + r[0]
				if e%2 == 1 {
					v = r[1] - r[2] - r[3]
				}
				v += w.biases[first+c]
				if o.does&doesAddend != 0 {
					v += w.Addend[at]
				}
				if o.does&doesRelu != 0 {
					v = max(v, 0)
				}
				if o.does&doesResidual != 0 {
					v += w.Residual[at]
				}
				w.Out[at] = v
			}
		}
	}
}

func winogradLastSeen(seen, x []float32, channels int) {
	half := len(seen) / 2
	clear(seen)
	for i, v := range x {
		c := i % channels
		v = max(v, -v)
		seen[c], seen[half+c] = max(seen[c], v), seen[half+c]+v
	}
}
