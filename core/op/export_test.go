package op

// SetBackwardBlock sets how many scores the lowering of attention_backward stores at a time, and for how many queries
// at least. It returns a function that restores the former numbers.
func SetBackwardBlock(scores, rows int64) (restore func()) {
	old := backwardBlock
	backwardBlock.scores, backwardBlock.rows = scores, rows
	return func() { backwardBlock = old }
}
