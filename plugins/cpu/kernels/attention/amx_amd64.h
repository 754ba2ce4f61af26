// Instructions of AMX and AVX512_BF16, which Go's assembler lacks, encoded according to the Intel Architecture
// Instruction Set Extensions reference. Names and operands are as there, so the result comes first. The macros take
// register numbers.

#define rax 0
#define rcx 1
#define rdx 2
#define rbx 3
#define rsi 6
#define rdi 7
#define r8 8
#define r9 9
#define r10 10
#define r11 11
#define r12 12
#define r13 13
#define r14 14
#define r15 15

#define tmm0 0
#define tmm1 1
#define tmm2 2
#define tmm3 3
#define tmm4 4
#define tmm5 5
#define tmm6 6
#define tmm7 7

#define zmm0 0
#define zmm1 1
#define zmm2 2
#define zmm3 3
#define zmm4 4
#define zmm5 5
#define zmm6 6
#define zmm7 7
#define zmm8 8
#define zmm9 9
#define zmm10 10
#define zmm11 11
#define zmm12 12
#define zmm13 13
#define zmm14 14
#define zmm15 15
#define zmm16 16
#define zmm17 17
#define zmm18 18
#define zmm19 19
#define zmm20 20
#define zmm21 21
#define zmm22 22
#define zmm23 23
#define zmm24 24
#define zmm25 25
#define zmm26 26
#define zmm27 27
#define zmm28 28
#define zmm29 29
#define zmm30 30
#define zmm31 31

// LDTILECFG [base], base neither rsp, rbp, r12 nor r13: VEX.128.NP.0F38.W0 49 !(11):000:bbb
#define LDTILECFG(base) \
	BYTE $0xc4; BYTE $(0xe2-(base>>3)*0x20); BYTE $0x78; BYTE $0x49; BYTE $(base&7)

// TILERELEASE: VEX.128.NP.0F38.W0 49 C0
#define TILERELEASE() \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x78; BYTE $0x49; BYTE $0xc0

// TILEZERO tile: VEX.128.F2.0F38.W0 49 11:rrr:000
#define TILEZERO(tile) \
	BYTE $0xc4; BYTE $0xe2; BYTE $0x7b; BYTE $0x49; BYTE $(0xc0+tile*8)

// What TILELOADD and TILESTORED share: prefix 3 is F2, 2 is F3; index is not rsp.
#define TILE_MOVE(prefix, tile, base, index, disp) \
	BYTE $0xc4; BYTE $(0xe2-(base>>3)*0x20-(index>>3)*0x40); BYTE $(0x78+prefix); BYTE $0x4b; \
	BYTE $(0x84+tile*8); BYTE $((index&7)*8+(base&7)); LONG $disp

// TILELOADD tile, [base + index + disp]: VEX.128.F2.0F38.W0 4B !(11):rrr:100, index is the distance of rows
#define TILELOADD(tile, base, index, disp) TILE_MOVE(3, tile, base, index, disp)

// TILESTORED [base + index + disp], tile: VEX.128.F3.0F38.W0 4B !(11):rrr:100
#define TILESTORED(base, index, disp, tile) TILE_MOVE(2, tile, base, index, disp)

// TDPBF16PS sum, a, b is sum += a·b: VEX.128.F3.0F38.W0 5C 11:rrr:bbb, a is bbb, b is vvvv
#define TDPBF16PS(sum, a, b) \
	BYTE $0xc4; BYTE $0xe2; BYTE $(0x7a-b*8); BYTE $0x5c; BYTE $(0xc0+sum*8+a)

// The same for integers of 8 bits, the first operand unsigned and the second signed, and the other way around:
// VEX.128.66.0F38.W0 5E and F3.
#define TDPBUSD(sum, a, b) \
	BYTE $0xc4; BYTE $0xe2; BYTE $(0x79-b*8); BYTE $0x5e; BYTE $(0xc0+sum*8+a)

#define TDPBSUD(sum, a, b) \
	BYTE $0xc4; BYTE $0xe2; BYTE $(0x7a-b*8); BYTE $0x5e; BYTE $(0xc0+sum*8+a)

// TDPBSSD sum, a, b is sum += a·b for signed bytes: VEX.128.F2.0F38.W0 5E 11:rrr:bbb
#define TDPBSSD(sum, a, b) \
	BYTE $0xc4; BYTE $0xe2; BYTE $(0x7b-b*8); BYTE $0x5e; BYTE $(0xc0+sum*8+a)

// What the instructions of AVX512_BF16 share: prefix 2 is F3, 3 is F2; the bits of EVEX that extend registers are
// inverted.
#define EVEX_512(prefix, opcode, dst, a, b) \
	BYTE $0x62; BYTE $(0xf2-((dst>>3)&1)*0x80-((b>>4)&1)*0x40-((b>>3)&1)*0x20-(dst>>4)*0x10); \
	BYTE $(0x7c+prefix-(a&15)*8); BYTE $(0x48-(a>>4)*8); BYTE $opcode; BYTE $(0xc0+(dst&7)*8+(b&7))

// VDPBF16PS sum, a, b is sum += a·b over the pairs of each lane: EVEX.512.F3.0F38.W0 52 /r
#define VDPBF16PS(sum, a, b) EVEX_512(2, 0x52, sum, a, b)

// VCVTNE2PS2BF16 dst, high, low rounds the lanes of low, then those of high: EVEX.512.F2.0F38.W0 72 /r
#define VCVTNE2PS2BF16(dst, high, low) EVEX_512(3, 0x72, dst, high, low)
