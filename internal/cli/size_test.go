package cli

import (
	"math"
	"testing"
)

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 switches", 1: "1 switch", 2: "2 switches"} {
		if got := Count(n, "switch", "switches"); got != want {
			t.Errorf("%d: %q; want %q", n, got, want)
		}
	}
}

func TestDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.008123: "0.008123", 0.0000012: "0.000001200", 0.4: "0.4000", 26.2: "26.20", 999.94: "999.9",
		1234: "1234", 56789.4: "56789", -2.5: "-2.500", math.Inf(1): "+Inf",
	} {
		if got := Digits(v); got != want {
			t.Errorf("Digits(%v) = %s, want %s", v, got, want)
		}
	}
}
