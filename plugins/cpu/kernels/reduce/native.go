//go:build amd64 || arm64

package reduce

func sumOf(lanes int, f func(x *float32, blocks int) float32) func([]float32) float32 {
	return func(x []float32) float32 {
		var s float32
		n := len(x) / lanes
		if n > 0 {
			s = f(&x[0], n)
		}
		for _, v := range x[n*lanes:] {
			s += v
		}
		return s
	}
}

func deviationsOf(lanes int, f func(x *float32, blocks int, mean float32, distance *float32) float32) func(
	[]float32, float32) (float32, float32) {
	return func(x []float32, mean float32) (distance, squares float32) {
		n := len(x) / lanes
		if n > 0 {
			squares = f(&x[0], n, mean, &distance)
		}
		for _, v := range x[n*lanes:] {
			distance += mean - v
			squares += (v - mean) * (v - mean)
		}
		return distance, squares
	}
}

func normalizeOf(lanes int, f func(dst, x, gamma, beta *float32, blocks int, mean, scale, shift float32)) func(
	dst, x, gamma, beta []float32, mean, scale, shift float32) {
	return func(dst, x, gamma, beta []float32, mean, scale, shift float32) {
		dst, gamma, beta = dst[:len(x)], gamma[:len(x)], beta[:len(x)]
		n := len(x) / lanes
		if n > 0 {
			f(&dst[0], &x[0], &gamma[0], &beta[0], n, mean, scale, shift)
		}
		for i := n * lanes; i < len(x); i++ {
			dst[i] = ((x[i]-mean)*scale+shift)*gamma[i] + beta[i]
		}
	}
}
