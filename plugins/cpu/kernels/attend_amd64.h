// POWER is the powers of a key for 16 queries: from the scores, 64 bytes at DX+scores, p = 2^(Z0*score + row), whose exponent is the floor
// and whose mantissa a polynomial of the rest with coefficients Z1 to Z4.
#define POWER(scores, row, t, f, p) \
	VMOVUPS     (scores)(DX), t; \
	VFMADD213PS row, Z0, t;      \
	VREDUCEPS   $1, t, f;        \
	VMOVAPS     Z4, p;           \
	VFMADD213PS Z3, f, p;        \
	VFMADD213PS Z2, f, p;        \
	VFMADD213PS Z1, f, p;        \
	VSCALEFPS   t, p, p

// POWERS is a column of 16 queries by two keys in the softmax of attend, whose registers it uses. It computes their weights; cuts them to
// bfloat16 with Z5; adds them to sum; and stores them as one row of pairs at R11+weights.
#define POWERS(scores, weights, row, sum, t0, f0, p0, t1, f1, p1) \
	POWER(scores, row, t0, f0, p0);    \
	POWER(scores+64, row, t1, f1, p1); \
	VPANDD  Z5, p0, p0;                \
	VADDPS  p0, sum, sum;              \
	VPANDD  Z5, p1, p1;                \
	VADDPS  p1, sum, sum;              \
	VPSRLD  $16, p0, p0;               \
	VPORD   p0, p1, t0;                \
	VMOVUPS t0, weights(R11)

// The queries of a panel's two halves, with registers of their own so that one half's powers need not wait for the other's.
#define POWERS0(scores, weights, row) POWERS(scores, weights, row, Z6, Z13, Z14, Z15, Z16, Z17, Z18)
#define POWERS1(scores, weights, row) POWERS(scores, weights, row, Z7, Z19, Z20, Z21, Z22, Z23, Z24)

// MAXIMA enters a row of the next block's four tiles of scores into their maxima.
#define MAXIMA(row) \
	VMAXPS row(BX), Z13, Z13;        \
	VMAXPS (row+1024)(BX), Z14, Z14; \
	VMAXPS (row+2048)(BX), Z15, Z15; \
	VMAXPS (row+3072)(BX), Z16, Z16
