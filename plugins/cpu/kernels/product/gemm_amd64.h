// Macros for one row of a matrix product, with panels of B that are one or two vectors wide. CX points to the elements
// of A, DI and BX point to rows of C, and SI is the distance between rows in bytes.

// The element at CX+disp times a row of B, added to sums.
#define FMA1(disp, x, b0, sum0) \
	VBROADCASTSS disp(CX), x; \
	VFMADD231PS  b0, x, sum0

#define FMA2(disp, x, b0, b1, sum0, sum1) \
	VBROADCASTSS disp(CX), x; \
	VFMADD231PS  b0, x, sum0; \
	VFMADD231PS  b1, x, sum1

// The same for an element at any place.
#define FMA_AT1(at, x, b0, sum0) \
	VBROADCASTSS at, x; \
	VFMADD231PS  b0, x, sum0

#define FMA_AT2(at, x, b0, b1, sum0, sum1) \
	VBROADCASTSS at, x; \
	VFMADD231PS  b0, x, sum0; \
	VFMADD231PS  b1, x, sum1

// The same for rows of B. The factors are in the other order, so that of two NaNs the same one is the
// result.
#define FMA_ROW1(at, x, b0, sum0) \
	VBROADCASTSS at, x; \
	VFMADD231PS  x, b0, sum0

#define FMA_ROW2(at, x, b0, b1, sum0, sum1) \
	VBROADCASTSS at, x; \
	VFMADD231PS  x, b0, sum0; \
	VFMADD231PS  x, b1, sum1

// The same for pairs of bfloat16. VDPBF16PS takes registers by number, hence one macro for each register of x, and B in
// Z31 and Z30.
#define PAIRS1_Z29(disp, sum0) \
	VBROADCASTSS disp(CX), Z29; \
	VDPBF16PS(sum0, zmm31, zmm29)

#define PAIRS1_Z28(disp, sum0) \
	VBROADCASTSS disp(CX), Z28; \
	VDPBF16PS(sum0, zmm31, zmm28)

#define PAIRS2_Z29(disp, sum0, sum1) \
	VBROADCASTSS disp(CX), Z29;    \
	VDPBF16PS(sum0, zmm31, zmm29); \
	VDPBF16PS(sum1, zmm30, zmm29)

#define PAIRS2_Z28(disp, sum0, sum1) \
	VBROADCASTSS disp(CX), Z28;    \
	VDPBF16PS(sum0, zmm31, zmm28); \
	VDPBF16PS(sum1, zmm30, zmm28)

// The beginning of a row: its sums are cleared, and its row of C, whose last float is at end, is prefetched.
#define BEGIN_ROW1_AVX2(end, sum0) \
	PREFETCHT0 (DI);           \
	PREFETCHT0 end(DI);        \
	ADDQ       SI, DI;         \
	VXORPS     sum0, sum0, sum0

#define BEGIN_ROW2_AVX2(end, sum0, sum1) \
	BEGIN_ROW1_AVX2(end, sum0);      \
	VXORPS sum1, sum1, sum1

#define BEGIN_ROW1_AVX512(end, sum0) \
	PREFETCHT0 (DI);             \
	PREFETCHT0 end(DI);          \
	ADDQ       SI, DI;           \
	VPXORD     sum0, sum0, sum0

#define BEGIN_ROW2_AVX512(end, sum0, sum1) \
	BEGIN_ROW1_AVX512(end, sum0);      \
	VPXORD sum1, sum1, sum1

// A row of bias, the same for all rows, added to sums.
#define ADD_BIAS1(bias0, sum0) \
	VADDPS bias0, sum0, sum0

#define ADD_BIAS2(bias0, bias1, sum0, sum1) \
	VADDPS bias0, sum0, sum0; \
	VADDPS bias1, sum1, sum1

// A row of C, whose last float is at end, and the way to the next.
#define PREFETCH_ROW(end) \
	PREFETCHT0 (DI);    \
	PREFETCHT0 end(DI); \
	ADDQ       SI, DI

// A row of C, or of the residual, added to sums, and the way to the next by step. Size is that of a vector, of which
// one needs none, but is called like two.
#define ADD_ROW1(step, size, sum0) \
	VADDPS (DI), sum0, sum0; \
	ADDQ   step, DI

#define ADD_ROW2(step, size, sum0, sum1) \
	VADDPS (DI), sum0, sum0;     \
	VADDPS size(DI), sum1, sum1; \
	ADDQ   step, DI

// Sums stored to a row of C, and the way to the next.
#define STORE_ROW1(size, sum0) \
	VMOVUPS sum0, (BX); \
	ADDQ    SI, BX

#define STORE_ROW2(size, sum0, sum1) \
	VMOVUPS sum0, (BX);     \
	VMOVUPS sum1, size(BX); \
	ADDQ    SI, BX
