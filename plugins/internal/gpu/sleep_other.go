//go:build !linux && !darwin

package gpu

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
