//go:build !linux

package cli

import "time"

func processStart() (time.Time, bool) { return time.Time{}, false }
