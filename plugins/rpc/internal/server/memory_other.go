//go:build darwin || windows

package server

// adviseHuge does nothing, because this system chooses the size of pages itself.
func adviseHuge([]byte) {}
