package kernels

import (
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
)

// FeaturesEnv names the environment variable that forces an instruction set, read once.
const FeaturesEnv = "RLX_CPU_FEATURES"

// panel is the routines for packed panels of nr columns.
type panel struct {
	nr int

	// gemm is C[rows, nr] = A·B for packed A (rows floats per k) and packed B (nr floats per k), rows <= mr.
	// To it are added, in this order: what C holds if accumulate is set, bias[nr], residual[rows, nr]; nil means none.
	gemm func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int)

	// pairs is gemm for pairs of bfloat16 in place of floats; nil where the processor has no such product.
	pairs func(rows, k int, a, b, c []float32, ldc int, accumulate bool, bias, residual []float32, ldr int)

	// The passes over one panel of attention scores s[keys, nr]; see attention_tile.go.
	scoreMax     func(s []float32, scale float32, max []float32)
	scoreBiasMax func(s []float32, scale float32, row, each, max []float32)
	expSum       func(s []float32, max, sum []float32)
	scaleRows    func(x []float32, by []float32)
}

// isa is one instruction set: the tile shapes and the innermost routines that differ between sets. The fields state the contracts,
// which are the same for all sets, so that the kernels above are written once.
type isa struct {
	name   string
	lanes  int   // floats in a vector
	mr     int   // rows of a gemm tile
	panel        // of two vectors
	narrow panel // of one vector, for the rest of a row of wide panels

	// transpose is dst[j*ldd+i] = src[i*lds+j], i < rows <= lanes, j < cols; cols is a multiple of lanes. In each row of dst
	// it may write arbitrary values to the floats up to lanes, in ascending j.
	transpose func(dst []float32, ldd int, src []float32, lds int, rows, cols int)
	// copyRows is dst[i*ldd:][:lanes] = src[i*lds:][:lanes] in ascending i.
	copyRows func(dst []float32, ldd int, src []float32, lds int, rows int)
	// gatherRows is dst[i*ldd+j] = src[i*lds+at[j]] for j < lanes, i < rows; 0 where at[j] is negative.
	gatherRows func(dst []float32, ldd int, src []float32, lds, rows int, at []int32)
	// copyAt is dst[i*ldd:][:lanes] = src[at[i]:][:lanes] in ascending i; no place is above most.
	copyAt func(dst []float32, ldd int, src []float32, at []int, most int)
	// reverse is dst[n-1-i] = src[i], i < n, the length of both.
	reverse func(dst, src []float32)
	// evens is dst[i] = src[2*i]; zip is dst[2*i] = a[i], dst[2*i+1] = b[i].
	evens func(dst, src []float32)
	zip   func(dst, a, b []float32)
	// stencil is dst[i] = bias + sum_t w[t]*src[at[t]+i]; stencilEach is bias[i] + sum_t w[place[t]+i]*src[at[t]+i].
	stencil     func(dst, src []float32, at []int, w []float32, bias float32)
	stencilEach func(dst, src []float32, at []int, w []float32, place []int, bias []float32)
	// dotRows is dst[i*inc] = sum_k mat[i*ld+k]*x[k], i < rows.
	dotRows             func(dst []float32, inc int, mat []float32, ld int, rows int, x []float32)
	widenF16, widenBF16 func(dst []float32, src []uint16)
	// narrowF16 and narrowBF16 round to the nearest, ties to even.
	narrowF16, narrowBF16 func(dst []uint16, src []float32)

	// Elementwise functions over slices of equal length, by their ops; dst may be an operand.
	unary   []unaryLoop // by id; see apply
	binary  []func(dst, a, b []float32)
	compare [compareCount]func(dst []uint8, a, b []float32)
	test    [predicateCount]func(dst []uint8, src []float32)
	choose  func(dst []float32, cond []uint8, t, f []float32)
	// bits are the functions of bits and bools; those of one operand have it twice.
	bits [bitOpCount]func(dst, a, b []uint8)
	// half are functions of f16 and bf16 that are computed in f32 and rounded; for others operands are widened first.
	half map[halfFunction]func(dst, a, b []uint16)
	// slow are the elementwise ops for which the set has no routine, so that loops in Go compute them.
	slow map[any]bool

	casts    *castRoutines // of whole vectors; loops in Go do all others
	affine   *affineRoutines
	integers map[integerFunction]integerRoutine

	// quads are the products of 8-bit integers for a left operand that is unsigned where it matters, and for such a right one. requantize finishes
	// sums: dst[i] = round((acc[i] + add[i] + base) * mult[i]), limited, + zero, or 0 where the product is NaN.
	quads      [2]integerProduct
	requantize func(dst []uint8, acc, add []int32, mult []float32, to *requantizing)
	folds      *foldRoutines    // nil: a reduction takes the vectors of binary functions
	softmax    *softmaxRoutines // nil: softmaxRowByParts and vectors of columns

	sum        func(x []float32) float32
	sumSquares func(x []float32, mean float32) float32 // sum of (x-mean)^2
	normalize  func(dst, x, gamma, beta []float32, mean, scale float32)

	strips strips // the steps of recurrences

	// threefry is dst[i] = the first word of random.Threefry for the counter (counter, first+i), for whole vectors; nil: one by one.
	threefry func(dst []uint32, counter, first uint32, key [2]uint32)

	// scans are running sums, products and maxima: y_i = acc op x_0 op ... op x_i, of which they return the last. nil: loops in Go.
	scans [scanCount]func(dst, src []float32, acc float64) float64

	// dst[r] = x·w[r], rows of w being ld elements apart. They return false where x is no whole number of vectors; nil: rows are widened first.
	dotF16, dotBF16 func(dst []float32, w []uint16, ld int, x []float32) bool

	packed  map[dtype.DType]packedRoutines // of packed weights; loops in Go decode the other types
	schemes map[string]schemeRoutines      // by what the weights are, see SchemeWeights; int8_asym with a zero

	// Products of rounded activations, see packed_integers.go. roundRow is quant.RoundActivations of whole groups, with the sums of each 16
	// elements of q. nil: rounded activations are multiplied as floats.
	integerFormats   map[dtype.DType]integerFormat
	roundRow         func(q []int8, scale, sums, x []float32)
	multiplyIntegers func(r groupProduct)
	dotBytes         map[dtype.DType]byteDot // products with one row, of blocks as they are stored

	split *splitRoutines // nil: products of packed weights and activations as they are widen the weights; see packed_tiles.go

	// bfloat16: round rounds to its values, stored as floats. pair packs rows 2i and 2i+1 of a panel [2n, width] as pairs, the even row in
	// the low half, in the order that the products of the set expect; it reads and writes whole vectors. nil where there are
	// neither pairs nor tiles.
	round func(dst, src []float32)
	pair  func(dst, panel []float32, width, n int)
	// tiles is C = init + A·B for blocks of 32 rows and 32 columns, 32*steps deep: A as blocks [blocks][steps][32][32 bfloat16],
	// B as pairs [16*steps, 32]. init may be nil or C. nil where the processor has no tiles. tileRow is a row of a block.
	tiles   func(blocks, steps int, a, b, c []float32, ldc int, init []float32, ldi int)
	tileRow func(dst, src []float32, steps int)
	// blockRowsOut rounds rows of 32*steps floats, ld apart, into rows of blocks; dst starts with the first. It stores past
	// the caches.
	blockRowsOut func(dst, src []float32, ld, rows, steps int)
	// tilePanel is a product for matrices, with the epilogue; nil with tiles.
	tilePanel  func(t *tilePanel)
	storeFence func() // orders what tilePanel stored before what is stored next

	// attend is attention of one panel in tiles, see attendPanel; nil where the processor has no tiles.
	attend func(a *attendPanel)
	// tileRows rounds n rows of 32*steps floats, ld apart, n <= 16, to bfloat16: rows of steps consecutive tiles. tileRowsSplit also
	// rounds the remainders, as low parts, and prefetches what is ahead floats further. tilePairs is pair for rows of 16*vectors floats, ld apart. tileTerms is a product of two pairs of
	// operands. tileOut transposes and divides the results of attend: dst[j*ldd+i] = o[i*16+j] / l[j], i < 16*tiles, j < n. nil where attend is.
	tileRows      func(dst, src []float32, ld, n, steps int)
	tileRowsSplit func(dst, low, src []float32, ld, n, steps, ahead int)
	tilePairs     func(dst, src []float32, ld, n, vectors int)
	tileTerms     func(t *termTiles)
	tileOut       func(dst []float32, ldd int, o, l []float32, n, tiles int)

	fft *fftRoutines[float32] // nil: loops in Go

	halfLoop func(n int) // 12*n vector products of pairs, nil if not known
	tileLoop func(n int) // 4*n products of tiles
	fmaLoop  func(n int) // 12*n vector multiply-adds; nil if not known
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
	return nil, diag.New(diag.UnknownFeatures, subject, "%q is not available on this processor; it has %s", name, strings.Join(Features(), ", "))
}
