package pool

import "unsafe"

// ElementsOf returns bytes as a slice of elements.
func ElementsOf[T any](b []byte) []T {
	var t T
	n := len(b) / int(unsafe.Sizeof(t))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// BytesOf returns elements as a slice of bytes.
func BytesOf[T any](s []T) []uint8 {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*uint8)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

func Pointer[T any](s []T, i int) *uint8 {
	if i < 0 {
		return nil
	}
	return (*uint8)(unsafe.Pointer(&s[i]))
}

// Numbers returns n values of scratch memory.
func Numbers[T float32 | float64](s *Scratch, n int) []T {
	f := s.Floats(n * int(unsafe.Sizeof(T(0))) / 4)
	if len(f) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&f[0])), n)
}

// Ints returns scratch memory for n integers.
func (s *Scratch) Ints(n int) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(s.Floats(n)))), n)
}
