//go:build amd64 || arm64

package norm

func scoreMaxOf(nr int, f func(s *float32, keys int, scale float32, max *float32)) func([]float32, float32, []float32) {
	return func(s []float32, scale float32, max []float32) {
		_ = max[nr-1]
		if keys := len(s) / nr; keys > 0 {
			f(&s[0], keys, scale, &max[0])
		}
	}
}

func scoreBiasMaxOf(nr int, f func(s *float32, keys int, scale float32, row, each, max *float32)) func(
	[]float32, float32, []float32, []float32, []float32) {
	return func(s []float32, scale float32, row, each, max []float32) {
		_, _ = row[nr-1], max[nr-1]
		if keys := len(s) / nr; keys > 0 {
			_ = each[keys*nr-1]
			f(&s[0], keys, scale, &row[0], &each[0], &max[0])
		}
	}
}

func expSumOf(nr int, f func(s *float32, keys int, max, sum *float32)) func([]float32, []float32, []float32) {
	return func(s []float32, max, sum []float32) {
		_, _ = max[nr-1], sum[nr-1]
		if keys := len(s) / nr; keys > 0 {
			f(&s[0], keys, &max[0], &sum[0])
		}
	}
}

func scaleRowsOf(nr int, f func(x *float32, rows int, by *float32)) func([]float32, []float32) {
	return func(x, by []float32) {
		_ = by[nr-1]
		if rows := len(x) / nr; rows > 0 {
			f(&x[0], rows, &by[0])
		}
	}
}
