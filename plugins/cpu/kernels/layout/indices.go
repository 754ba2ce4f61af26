package layout

import (
	"encoding/binary"
	"math"

	"github.com/rlx-go/rlx/core/dtype"
)

// Indices stores indices as elements of type i32, i64, u32 or f32.
type Indices struct {
	Bytes []byte
	Index dtype.DType
}

func (s Indices) Put(i, at int) {
	switch b := s.Bytes[i*s.Index.Size():]; s.Index {
	case dtype.I64:
		binary.LittleEndian.PutUint64(b, uint64(at))
	case dtype.F32:
		binary.LittleEndian.PutUint32(b, math.Float32bits(float32(at)))
	default: // i32 and u32
		binary.LittleEndian.PutUint32(b, uint32(at))
	}
}
