package gpu

import (
	"testing"
	"time"
)

// released counts releases of commands.
type released int

func (r *released) Release() { *r++ }

// TestTapes: a tape whose commands are kept is used again for the same sizes and outputs, and only a few are kept.
func TestTapes(t *testing.T) {
	x := &executable{}
	var gone released
	use := func(n int64, outputs []bool, kept bool) (again bool) {
		if n != x.syms["N"] {
			x.putTape()
			x.syms = map[string]int64{"N": n}
		}
		x.takeTape(outputs)
		if x.tape != nil {
			return true
		}
		x.tape = &tape{syms: x.syms, outputs: outputs, kept: kept, submissions: []submission{{commands: &gone}}}
		return false
	}
	some := []bool{true, false}
	for i, c := range []struct {
		n       int64
		outputs []bool
		again   bool
	}{{512, nil, false}, {1, some, false}, {1, some, true}, {512, nil, true}, {1, nil, false}, {1, some, true},
		{512, some, false}, {512, nil, true}} {
		if again := use(c.n, c.outputs, true); again != c.again {
			t.Errorf("%d: the tape for %d, %v is kept: %v; want %v", i, c.n, c.outputs, again, c.again)
		}
	}
	if gone != 0 {
		t.Errorf("%d tapes are released", gone)
	}
	for n := range int64(mostTapes + 1) {
		use(1000+n, nil, true)
	}
	if gone != 4 {
		t.Errorf("%d tapes are released; want the 4 used least recently", gone)
	}
	use(5000, nil, false)
	use(5001, nil, false)
	if gone != 6 { // one too many, and the one that is not kept
		t.Errorf("%d tapes are released; want 6", gone)
	}
	x.dropTapes()
	if gone != 6+1+mostTapes || x.tape != nil || x.tapes != nil {
		t.Errorf("%d tapes are released; want all", gone)
	}
}

// TestKeptTapes: programs with many dispatches keep fewer tapes.
func TestKeptTapes(t *testing.T) {
	for dispatches, want := range map[int]int{0: 32, 150: 32, 256: 32, 512: 16, 1024: 8, 5000: 8} {
		if got := keptTapes(dispatches); got != want {
			t.Errorf("with %d dispatches: %d; want %d", dispatches, got, want)
		}
	}
}

// TestPaceOf: the pace of other sizes counts only before the first run of these sizes.
func TestPaceOf(t *testing.T) {
	x := &executable{sizes: &sizes{}, pace: time.Second}
	if got := x.paceOf(); got != time.Second {
		t.Errorf("before the first run: %v", got)
	}
	x.sizes.pace = time.Minute
	if x.paceOf() != time.Minute {
		t.Errorf("after it: %v", x.paceOf())
	}
}
