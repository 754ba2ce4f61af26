package host

import "time"

// Timeouts bound the time that a backend may take. The caller's context can shorten but not extend them. A value of
// zero selects the default given below.
type Timeouts struct {
	Start time.Duration // from process start to the end of the handshake: 30 s
	Info  time.Duration // 10 s
	Load  time.Duration // 2 min, because a GPU backend compiles its shaders
	Run   time.Duration // 1 h
	// Step is the longest time between two changes of the number of steps that have started: 10 min. It ends a run
	// whose kernel never returns, although the process still sends heartbeats. A negative value means no limit.
	Step   time.Duration
	Stats  time.Duration // 10 s
	Unload time.Duration // 10 s
	// Stall is the longest interval between heartbeats during a call, for backends that send them: 10 s. A Go program
	// sends none while its runtime waits for a thread to reach a safe point, so Stall must be much longer than the
	// longest kernel call.
	Stall time.Duration
	// Cancel is how long a cancelled run may take to end before the backend is killed: 2 s.
	Cancel time.Duration
	// Stop is how long Close waits after each attempt to end the backend: 1 s.
	Stop time.Duration
}

func (t Timeouts) WithDefaults() Timeouts {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&t.Start, 30*time.Second) // a Python program with NumPy and gRPC needs one second, or ten on a busy machine
	set(&t.Info, 10*time.Second)
	set(&t.Load, 2*time.Minute)
	set(&t.Run, time.Hour)
	if t.Step == 0 {
		t.Step = 10 * time.Minute
	}
	set(&t.Stats, 10*time.Second)
	set(&t.Unload, 10*time.Second)
	set(&t.Stall, 10*time.Second)
	set(&t.Cancel, 2*time.Second)
	set(&t.Stop, time.Second)
	return t
}
