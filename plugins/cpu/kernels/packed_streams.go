package kernels

// dotStreams is the number of rows of weights that the routines for few rows of activations read at once. The rows are
// gap bytes apart in memory, and their results lead elements apart.
const dotStreams = 4

// eachStream calls f for the rows of a product. In the first call, stream i reads the rows from i*lead on, each stream
// a quarter of the rows. Up to three rows are left over. In the call for them, which begins at row at, lead and gap are
// 0, so that all streams read the same row.
func eachStream(rows, stride int, f func(at, lead, gap, rows int)) {
	lead := rows / dotStreams
	if lead > 0 {
		f(0, lead, lead*stride, lead)
	}
	if at := lead * dotStreams; at < rows {
		f(at, 0, 0, rows-at)
	}
}

// dotStrip returns the number of columns in the smallest piece of a product of few rows of activations. Their weights
// have about 32 KB: more, and workers would end at different times; less, and each would begin to read from memory too
// often.
func (g *GemmArgs) dotStrip() int {
	row := max(1, g.K*g.B.kind.Size()/g.B.kind.Values())
	return min(gemvStrip, max(dotStreams, 32<<10/row/dotStreams*dotStreams))
}
