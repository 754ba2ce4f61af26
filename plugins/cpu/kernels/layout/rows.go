package layout

// copyRows copies rows of n elements, which are ldd elements apart in dst and lds elements in src. A call of copy takes
// longer than copying a few elements does, so short rows are copied by arrays of a known size, of which the second
// overlaps the first.
func copyRows[T any](dst, src []T, ldd, lds, n, rows int) {
	if rows == 0 || n == 0 {
		return
	}
	if ldd == n && lds == n {
		copy(dst[:rows*n], src)
		return
	}
	dst, src = dst[:(rows-1)*ldd+n], src[:(rows-1)*lds+n]
	at, from := 0, 0
	switch {
	case n == 1:
		for ; at < len(dst); at, from = at+ldd, from+lds {
			dst[at] = src[from]
		}
	case n < 4:
		for ; at < len(dst); at, from = at+ldd, from+lds {
			d, s := dst[at:at+n], src[from:from+n]
			a, b := *(*[2]T)(s), s[len(s)-1]
			*(*[2]T)(d), d[len(d)-1] = a, b
		}
	case n < 8:
		for ; at < len(dst); at, from = at+ldd, from+lds {
			d, s := dst[at:at+n], src[from:from+n]
			a, b := *(*[4]T)(s), *(*[4]T)(s[len(s)-4:])
			*(*[4]T)(d), *(*[4]T)(d[len(d)-4:]) = a, b
		}
	case n < 16:
		for ; at < len(dst); at, from = at+ldd, from+lds {
			d, s := dst[at:at+n], src[from:from+n]
			a, b := *(*[8]T)(s), *(*[8]T)(s[len(s)-8:])
			*(*[8]T)(d), *(*[8]T)(d[len(d)-8:]) = a, b
		}
	default:
		for ; at < len(dst); at, from = at+ldd, from+lds {
			copy(dst[at:at+n], src[from:])
		}
	}
}
