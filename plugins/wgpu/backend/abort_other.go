//go:build cgo && (darwin || (amd64 && !linux))

package backend

func catchAbort(func(string)) {}
