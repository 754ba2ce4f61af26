//go:build !linux

package format

import "io"

func startWriteback(io.WriterAt, int64, int64) {}
