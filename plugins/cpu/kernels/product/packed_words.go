package product

import (
	"encoding/binary"
	"unsafe"
)

// quadExcess returns the correction for an excess in the weights of a group, for products that add pairs of bytes in 16
// bits: -excess times the sum of the first two bytes of all quads of a, and -excess times the sum of the last two.
// These are two int16, the first one in the lower half. len(a) is 16 or 32.
func quadExcess(a []int8, excess int) int32 {
	const low = 0x00ff00ff00ff00ff
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&a[0])), len(a))
	var sums uint64 // of bytes + 128: four 16-bit integers below 2^12
	for i := 0; i < len(bytes); i += 8 {
		x := binary.LittleEndian.Uint64(bytes[i:]) ^ 0x8080808080808080
		sums += x&low + x>>8&low
	}
	first, last := uint16(sums)+uint16(sums>>32), uint16(sums>>16)+uint16(sums>>48)
	by, bias := uint16(-excess), uint16(64*len(a)) // half of the bytes of a, 128 too much for each
	return int32(uint32((first-bias)*by) | uint32((last-bias)*by)<<16)
}
