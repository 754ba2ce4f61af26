// POWER computes the weights of a key for 16 queries: p = 2^(Z0*score + row) from the scores, 64 bytes at DX+scores.
// The floor of the exponent scales a polynomial of the fraction, with coefficients Z1 to Z4.
#define POWER(scores, row, t, f, p) \
	VMOVUPS     (scores)(DX), t; \
	VFMADD213PS row, Z0, t;      \
	VREDUCEPS   $1, t, f;        \
	VMOVAPS     Z4, p;           \
	VFMADD213PS Z3, f, p;        \
	VFMADD213PS Z2, f, p;        \
	VFMADD213PS Z1, f, p;        \
	VSCALEFPS   t, p, p

// POWERS computes the weights of two keys for 16 queries, in the registers of attend. It truncates them to bfloat16
// with the mask Z5, adds them to sum, and stores them as one row of pairs at R11+weights.
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

// POWERS0 and POWERS1 are for the queries of a panel's two halves. They use different registers, so that neither waits
// for the other.
#define POWERS0(scores, weights, row) POWERS(scores, weights, row, Z6, Z13, Z14, Z15, Z16, Z17, Z18)
#define POWERS1(scores, weights, row) POWERS(scores, weights, row, Z7, Z19, Z20, Z21, Z22, Z23, Z24)

// MAXIMA updates the maxima of the next block's four tiles of scores with one row of each.
#define MAXIMA(row) \
	VMAXPS row(BX), Z13, Z13;        \
	VMAXPS (row+1024)(BX), Z14, Z14; \
	VMAXPS (row+2048)(BX), Z15, Z15; \
	VMAXPS (row+3072)(BX), Z16, Z16
