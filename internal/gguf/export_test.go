package gguf

// SetMaxMemory changes the limit of memory for a test.
func SetMaxMemory(n int64) (restore func()) {
	old := maxMemory
	maxMemory = n
	return func() { maxMemory = old }
}
