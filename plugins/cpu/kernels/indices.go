package kernels

import (
	"encoding/binary"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// indexSlice stores indices as elements of type i32, i64, u32 or f32.
type indexSlice struct {
	bytes []byte
	index dtype.DType
}

func (s indexSlice) put(i, at int) {
	switch b := s.bytes[i*s.index.Size():]; s.index {
	case dtype.I64:
		binary.LittleEndian.PutUint64(b, uint64(at))
	case dtype.F32:
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(at)))
	default: // i32 and u32
		binary.LittleEndian.PutUint32(b, uint32(at))
	}
}
