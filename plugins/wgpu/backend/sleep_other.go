//go:build cgo && amd64 && !linux && !darwin

package backend

import "time"

func sleep(d time.Duration) { time.Sleep(d) }
