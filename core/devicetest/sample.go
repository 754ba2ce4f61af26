package devicetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// SampleEnv is the environment variable that selects checks of the ops. It is "all", or a number that seeds the choice
// of a sample. Without it the seed is 1.
const SampleEnv = "RLX_CONFORMANCE"

// usualShare is the probability with which a sample takes a check, unless Options.Share says otherwise. About 99% of
// the checks are in at least one of 35 samples.
const usualShare = 0.125

// sample chooses some of the checks of ops. Equal seeds choose equal checks. The checks themselves do not depend on the
// seed, so a check that fails in a sample also fails when all run.
type sample struct {
	all   bool
	seed  uint64
	share float64 // probability of a check; 0 means usualShare
	ops   float64 // probability of an op; 0 means 1
}

// sampleFromEnv returns the sample that SampleEnv asks for.
func sampleFromEnv() (sample, error) {
	switch v := os.Getenv(SampleEnv); v {
	case "":
		return sample{seed: 1}, nil
	case "all":
		return sample{all: true}, nil
	default:
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return sample{}, fmt.Errorf("%s is %q; want all or a number", SampleEnv, v)
		}
		return sample{seed: seed}, nil
	}
}

// Some chooses n of the numbers from 0 to limit-1, as SampleEnv says, in increasing order. It returns all of them if
// SampleEnv is "all".
func Some(t testing.TB, n, limit uint64) []uint64 {
	t.Helper()
	chosen, err := sampleFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	return chosen.some(min(n, limit), limit)
}

// SomeOf chooses n elements of a list, as SampleEnv says, and keeps their order. Tests of different names choose
// independently, so that over many samples all combinations are tried.
func SomeOf[T any](t testing.TB, n int, list []T) (out []T) {
	t.Helper()
	chosen, err := sampleFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(chosen.seed, seedOf(t.Name())))
	for k, x := range list {
		if chosen.all || rng.IntN(len(list)-k) < n-len(out) {
			out = append(out, x)
		}
	}
	return out
}

// String returns the setting of the environment that makes the same choice.
func (s sample) String() string {
	if s.all {
		return SampleEnv + "=all"
	}
	return fmt.Sprintf("%s=%d", SampleEnv, s.seed)
}

// takes reports whether the sample has an op, or a program of many.
func (s sample) takes(name string) bool {
	return s.all || s.ops == 0 || rand.New(rand.NewPCG(s.seed, seedOf(name)^1)).Float64() < s.ops
}

// pick chooses among the checks of an op, in their order. It takes about s.share of them, and more if needed to have
// one check of each kind, and one for each element type of operands and results. It takes none of an op that the sample
// leaves out.
func (s sample) pick(op string, checks []check) []check {
	if s.all {
		return checks
	}
	if !s.takes(op) {
		return nil
	}
	rng := rand.New(rand.NewPCG(s.seed, seedOf(op)))
	seen, taken := map[string]bool{}, make([]bool, len(checks))
	for _, i := range rng.Perm(len(checks)) {
		taken[i] = rng.Float64() < cmp.Or(s.share, usualShare)
		for _, tag := range checks[i].tags {
			if !seen[tag] {
				seen[tag], taken[i] = true, true
			}
		}
	}
	var out []check
	for i, c := range checks {
		if taken[i] {
			out = append(out, c)
		}
	}
	return out
}

// some chooses n of the numbers from 0 to limit-1, in increasing order. It returns all of them if s.all is set.
func (s sample) some(n, limit uint64) (out []uint64) {
	rng := rand.New(rand.NewPCG(s.seed, 19))
	for k := range limit {
		if s.all || rng.Uint64N(limit-k) < n-uint64(len(out)) {
			out = append(out, k)
		}
	}
	return out
}
