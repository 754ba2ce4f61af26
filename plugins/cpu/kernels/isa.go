package kernels

import (
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
)

// FeaturesEnv names the environment variable that chooses an instruction set. It is read once.
const FeaturesEnv = "RLX_CPU_FEATURES"

// panel holds the routines for packed panels of nr columns.
type panel struct {
	nr int

	// gemm is C[rows, nr] = A·B for packed A (rows floats per k) and packed B (nr floats per k), rows <= mr. It adds,
	// in this order: the old C if accumulate is set, bias[nr], residual[rows, nr]. nil means none.
	gemm func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int)

	// rowsProduct is C[mr, nr*panels] = A·B for rows of A as they are stored, lda floats apart, and packed panels of B,
	// which lie one after the other. It adds the old C if accumulate is set, and prefetches rows of the A that comes
	// next, one for each panel. nil if the set has no such routine.
	rowsProduct func(k int, a []float32, lda int, b, c []float32, ldc, panels int, accumulate bool, ahead rowsAhead)

	// pairs is gemm for pairs of bfloat16 in place of floats; nil if the set has no such instruction.
	pairs func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int)

	// Passes over one panel of attention scores s[keys, nr]; see attention_tile.go.
	scoreMax     func(s []float32, scale float32, max []float32)
	scoreBiasMax func(s []float32, scale float32, row, each, max []float32)
	expSum       func(s []float32, max, sum []float32)
	scaleRows    func(x []float32, by []float32)
}

// isa is one instruction set: the sizes and the inner routines that differ between sets. The contracts stated here hold
// for all sets, so kernels are written once.
type isa struct {
	name   string
	lanes  int   // floats in a vector
	mr     int   // maximum number of rows of a panel of A
	panel        // nr is two vectors
	narrow panel // nr is one vector, for the last columns of a matrix

	// transpose is dst[j*ldd+i] = src[i*lds+j], i < rows <= lanes, j < cols; cols is a multiple of lanes. It may write
	// whole vectors, so lanes floats of each row of dst; the rows are written in ascending order.
	transpose func(dst []float32, ldd int, src []float32, lds int, rows, cols int)
	// copyRows is dst[i*ldd:][:lanes] = src[i*lds:][:lanes], i < rows, in ascending order.
	copyRows func(dst []float32, ldd int, src []float32, lds int, rows int)
	// gatherRows is dst[i*ldd+j] = src[i*lds+at[j]], i < rows, j < lanes, or 0 if at[j] is negative.
	gatherRows func(dst []float32, ldd int, src []float32, lds, rows int, at []int32)
	// copyAt is dst[i*ldd:][:lanes] = src[at[i]:][:lanes] in ascending order of i; at[i] <= most.
	copyAt func(dst []float32, ldd int, src []float32, at []int, most int)
	// reverse is dst[n-1-i] = src[i]; both have n elements.
	reverse func(dst, src []float32)
	// evens is dst[i] = src[2*i], where dst may be src; zip is dst[2*i] = a[i], dst[2*i+1] = b[i].
	evens func(dst, src []float32)
	zip   func(dst, a, b []float32)
	// stencil is dst[i] = bias + sum_t w[t]*src[at[t]+i]. stencilEvens has src[at[t]+2*i] there, and reads one element
	// more for each t. 0 <= at[t] <= most. stencilEach is bias[i] + sum_t w[place[t]+i]*src[at[t]+i]. dst does not
	// overlap src.
	stencil, stencilEvens func(dst, src []float32, at []int, most int, w []float32, bias float32)
	stencilEach           func(dst, src []float32, at []int, w []float32, place []int, bias []float32)
	// dotRows is dst[i*inc] = sum_k mat[i*ld+k]*x[k], i < rows.
	dotRows             func(dst []float32, inc int, mat []float32, ld int, rows int, x []float32)
	widenF16, widenBF16 func(dst []float32, src []uint16)
	// narrowF16 and narrowBF16 round to the nearest, ties to even.
	narrowF16, narrowBF16 func(dst []uint16, src []float32)

	// Elementwise functions over slices of equal length, indexed by their ops; dst may be an operand.
	unary   []unaryLoop // by id; see apply
	binary  []func(dst, a, b []float32)
	compare [compareCount]func(dst []uint8, a, b []float32)
	test    [predicateCount]func(dst []uint8, src []float32)
	choose  func(dst []float32, cond []uint8, t, f []float32)
	// bits holds the functions of bits and bools. A function of one operand gets it as both a and b.
	bits [bitOpCount]func(dst, a, b []uint8)
	// half holds functions of f16 or bf16 that widen, compute in f32 and round in one pass.
	half map[halfFunction]func(dst, a, b []uint16)

	// halfMixed holds the same functions of f16 or bf16, and f32, with results of the former.
	halfMixed map[mixedFunction]func(dst, a []uint16, b []float32)
	// slow lists the elementwise ops for which the set has no routine. Loops in Go compute them.
	slow map[any]bool

	casts    *castRoutines // for whole vectors; loops in Go do the rest
	affine   *affineRoutines
	integers map[integerFunction]integerRoutine

	// quads multiply matrices of 8-bit integers. If the instruction takes one unsigned and one signed operand, the left
	// one is unsigned in quads[0] and the right one in quads[1]. requantize is dst[i] = clamp(round((acc[i] + add[i] +
	// base) * mult[i])) + zero; NaN counts as 0.
	quads      [2]integerProduct
	requantize func(dst []uint8, acc, add []int32, mult []float32, to *requantizing)
	folds      *foldRoutines    // nil: reductions use the binary routines
	softmax    *softmaxRoutines // nil: see softmaxRowByParts

	sum        func(x []float32) float32
	deviations func(x []float32, mean float32) (distance, squares float32)     // sums of mean-x and of its square
	normalize  func(dst, x, gamma, beta []float32, mean, scale, shift float32) // ((x-mean)*scale + shift)*gamma + beta

	strips strips // one token of each recurrence

	// threefry is dst[i] = random.Threefry({counter, first+i}, key)[0], for whole vectors; nil: computed one by one.
	threefry func(dst []uint32, counter, first uint32, key [2]uint32)

	// scans are running sums, products and maxima: dst[i] = acc op src[0] op ... op src[i]. They return the last one,
	// unrounded. nil: loops in Go.
	scans [scanCount]func(dst, src []float32, acc float64) float64

	// dotF16 and dotBF16 are dst[r] = x·w[r] for rows of w that are ld elements apart. They return false if x is not a
	// whole number of vectors. nil: rows are widened first.
	dotF16, dotBF16 func(dst []float32, w []uint16, ld int, x []float32) bool

	packed  map[dtype.DType]packedRoutines // for packed weights; loops in Go decode the other types
	schemes map[string]schemeRoutines      // by SchemeWeights.Values, and int8_asym for int8 with zero points

	// Products of activations rounded to 8 bits, see packed_integers.go. roundRow is quant.RoundActivations for whole
	// groups; sums[i] is the sum of 16 elements of q. nil: rounded activations are multiplied as floats.
	integerFormats map[dtype.DType]integerFormat
	roundRow       func(q []int8, scale, sums, x []float32)
	dotBytes       map[dtype.DType]byteDot // products with one row of activations, from blocks as they are stored

	split *splitRoutines // nil: products of packed weights and exact activations widen the weights; see packed_tiles.go

	// round rounds to bfloat16 and keeps the values as floats. pair packs rows 2i and 2i+1 of a panel [2n, width] as
	// pairs, with the even row in the low half, in the order that the products of the set expect. It reads and writes
	// whole vectors. nil if the set has neither pairs nor tiles.
	round func(dst, src []float32)
	pair  func(dst, panel []float32, width, n int)
	// tiles is C = init + A·B with C [32*blocks, 32] and k = 32*steps, for A [blocks][steps][32][32 bfloat16] and B as
	// pairs [16*steps, 32]. init may be nil or C. tileRow rounds one row of A, 32*steps floats. nil if the set has no
	// tiles.
	tiles   func(blocks, steps int, a, b, c []float32, ldc int, init []float32, ldi int)
	tileRow func(dst, src []float32, steps int)
	// blockRowsOut rounds rows of 32*steps floats, ld apart, into adjacent rows of blocks, with stores that bypass the
	// caches.
	blockRowsOut func(dst, src []float32, ld, rows, steps int)
	// tilePanel is tiles followed by bias, activation and residual; see tilePanel. nil if tiles is.
	tilePanel func(t *tilePanel)
	// stream copies 64*lines bytes with such stores, and brings as many from the addresses next and after into the L1
	// cache. dst is aligned to 64 bytes.
	stream     func(dst, src *uint8, next, after uintptr, lines int)
	storeFence func() // makes the stores that bypass the caches visible before later ones
	// prefetchRows brings the cache lines at the addresses at+i*stride for i < rows into the L2 cache, whether or not
	// there is memory. rows > 0. nil if the set has no such routine.
	prefetchRows func(at, stride uintptr, rows int)

	// attend computes attention for one panel of queries in tiles, see attendPanel. nil if the set has no tiles; so are
	// the next five.
	attend func(a *attendPanel)
	// tileRows rounds n <= 16 rows of 32*steps floats, ld apart, to rows of steps consecutive tiles of bfloat16.
	// tileRowsSplit also rounds what that rounding loses, into low, and prefetches src from ahead floats on. tilePairs
	// is pair for rows of 16*vectors floats, ld apart. tileTerms multiplies sums of two bfloat16, see termTiles.
	// tileOut finishes what attend computes: dst[j*ldd+i] = o[i*16+j] / l[j], i < 16*tiles, j < n.
	tileRows      func(dst, src []float32, ld, n, steps int)
	tileRowsSplit func(dst, low, src []float32, ld, n, steps, ahead int)
	tilePairs     func(dst, src []float32, ld, n, vectors int)
	tileTerms     func(t *termTiles)
	tileOut       func(dst []float32, ldd int, o, l []float32, n, tiles int)

	fft *fftRoutines[float32] // nil: loops in Go

	// Loops that measure the peak of the processor; nil if there is none.
	halfLoop func(n int) // 12*n vector products of pairs
	tileLoop func(n int) // 4*n products of tiles
	fmaLoop  func(n int) // 12*n vector multiply-adds
}

// Features lists the instruction sets that this processor can run, the best one last.
func Features() []string {
	var names []string
	for _, s := range available() {
		names = append(names, s.name)
	}
	return names
}

var available = sync.OnceValue(func() []*isa { return append([]*isa{genericISA()}, nativeISAs()...) })

var forced = sync.OnceValue(func() string { return os.Getenv(FeaturesEnv) })

func chooseISA(name string) (*isa, error) {
	subject := "cpu features"
	if name == "" {
		name, subject = forced(), FeaturesEnv
	}
	sets := available()
	if name == "" {
		return sets[len(sets)-1], nil
	}
	if i := slices.IndexFunc(sets, func(s *isa) bool { return s.name == name }); i >= 0 {
		return sets[i], nil
	}
	return nil, diag.New(code.Features, subject, "%q is not available on this processor; it has %s", name,
		strings.Join(Features(), ", "))
}
