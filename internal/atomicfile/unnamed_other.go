//go:build !linux

package atomicfile

import "os"

func createUnnamed(string) *os.File { return nil }

func linkTemp(*os.File, string) (string, error) { panic("BUG: no file without a name is made here") }
