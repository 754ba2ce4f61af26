package kernels

import "unsafe"

// elementsOf returns bytes as a slice of elements.
func elementsOf[T any](b []byte) []T {
	var t T
	n := len(b) / int(unsafe.Sizeof(t))
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// bytesOf returns elements as a slice of bytes.
func bytesOf[T any](s []T) []uint8 {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*uint8)(unsafe.Pointer(&s[0])), len(s)*int(unsafe.Sizeof(s[0])))
}

func pointer[T any](s []T, i int) *uint8 {
	if i < 0 {
		return nil
	}
	return (*uint8)(unsafe.Pointer(&s[i]))
}

// numbers returns n values of scratch memory.
func numbers[T float32 | float64](s *scratch, n int) []T {
	f := s.floats(n * int(unsafe.Sizeof(T(0))) / 4)
	if len(f) == 0 {
		return nil
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&f[0])), n)
}

// ints returns scratch memory for n integers.
func (s *scratch) ints(n int) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(s.floats(n)))), n)
}
