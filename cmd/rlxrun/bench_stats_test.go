package main

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	steady := []float64{90, 20, 11, 10.2, 10.1, 10.2, 10.1, 10.2, 10, 10, 10, 10}
	for _, c := range []struct {
		flags paceFlags
		step  time.Duration // the clock advances by this much in each run
		warm  int
		runs  int
	}{
		{paceFlags{runs: 2, warmup: 1}, 0, 1, 2},
		{paceFlags{runs: 3, warmup: 4}, 0, 4, 3},
		{paceFlags{runs: 2}, 0, 8, 2}, // 10.2, 10.1, 10.2 after 11, 10.2, 10.1
		{paceFlags{runs: 2}, 4 * time.Second, 3, 2},
		{paceFlags{runs: 2}, time.Minute, 1, 2},
		{paceFlags{runs: 2, warmup: 1, duration: 5 * time.Second}, 2 * time.Second, 1, 3},
		{paceFlags{runs: 2, warmup: 1, duration: time.Second}, time.Minute, 1, 1},
	} {
		clock := time.Unix(0, 0)
		p := &pace{flags: &c.flags, since: clock, now: func() time.Time { return clock }}
		for i, more := 0, true; more; i++ {
			clock = clock.Add(c.step)
			more = p.add(steady[min(i, len(steady)-1)])
		}
		if p.warm != c.warm || len(p.timed()) != c.runs {
			t.Errorf("%+v, %v: %d and %d runs; want %d and %d", c.flags, c.step, p.warm, len(p.timed()), c.warm, c.runs)
		}
	}
}

// The values are those of numpy.percentile.
func TestPercentile(t *testing.T) {
	s := []float64{1, 2, 4, 8, 16}
	for part, want := range map[float64]float64{0: 1, 0.5: 4, 0.9: 12.8, 0.95: 14.4, 0.99: 15.68, 1: 16} {
		if got := percentile(s, part); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v: %v; want %v", part, got, want)
		}
	}
	if got := percentile([]float64{3}, 0.99); got != 3 {
		t.Error(got)
	}
}

// TestCompared checks how often the interval has the true ratio, and that it tells faster from slower.
func TestCompared(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	sample := func(n int, scale float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = scale * math.Exp(0.05*rng.NormFloat64())
		}
		return out
	}
	const trials = 60
	inside := 0
	for range trials {
		if v := compared(sample(40, 9), sample(40, 10)); v.Low <= 0.9 && 0.9 <= v.High {
			inside++
		}
	}
	if inside < trials*85/100 {
		t.Errorf("%d of %d intervals have the true ratio; want about 95 %%", inside, trials)
	}
	a, b := sample(30, 1), sample(30, 1.2)
	if v := compared(a, b); v.Verdict != "faster" || v.Ratio > 0.9 {
		t.Errorf("%+v", v)
	}
	if v := compared(b, a); v.Verdict != "slower" || v.err() == nil {
		t.Errorf("%+v", v)
	}
	if v := compared(a, slices.Clone(a)); v.Verdict != "same" || v.err() != nil || v.Ratio != 1 {
		t.Errorf("%+v", v)
	}
}

func TestCompareWith(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.json")
	for text, ok := range map[string]bool{
		`{"method": "encode", "sizes": {"N": 2}, "runs_ms": [1, 2, 3]}`: true,
		`{"method": "encode", "sizes": {"N": 3}, "runs_ms": [1, 2, 3]}`: false,
		`{"method": "decode", "sizes": {"N": 2}, "runs_ms": [1, 2, 3]}`: false,
		`{"method": "encode", "sizes": {"N": 2}, "runs_ms": [1, 0, 3]}`: false,
		`{"method": "encode", "sizes": {"N": 2}, "runs_ms": []}`:        false,
		`{"method": "encode", "sizes": {"N": 2}}`:                       false,
		`[]`: false, ``: false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		v, err := (&paceFlags{compare: path}).compareWith("encode", map[string]int64{"N": 2}, 0, 0, []float64{1, 2, 3})
		if (err == nil) != ok || ok && v.Verdict != "same" {
			t.Errorf("%s: %+v, %v", text, v, err)
		}
	}
}
