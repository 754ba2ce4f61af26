//go:build !windows

package runner

import "time"

var origin = time.Now()

// clock returns the time since some moment.
func clock() time.Duration { return time.Since(origin) }
