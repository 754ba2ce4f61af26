// What the products of 8-bit integers do for one row: the four integers, or the two of 16 bits, at CX+disp times a row
// of B, added to sums. Go's VPDPBUSD takes the signed operand first.

// B is signed.
#define QUADS_LEFT(disp, x, b0, b1, sum0, sum1) \
	VPBROADCASTD disp(CX), x; \
	VPDPBUSD     b0, x, sum0; \
	VPDPBUSD     b1, x, sum1

// B is unsigned.
#define QUADS_RIGHT(disp, x, b0, b1, sum0, sum1) \
	VPBROADCASTD disp(CX), x; \
	VPDPBUSD     x, b0, sum0; \
	VPDPBUSD     x, b1, sum1

#define HALVES(disp, x, y, b0, b1, sum0, sum1) \
	VPBROADCASTD disp(CX), x;    \
	VPMADDWD     b0, x, y;       \
	VPADDD       y, sum0, sum0;  \
	VPMADDWD     b1, x, y;       \
	VPADDD       y, sum1, sum1
