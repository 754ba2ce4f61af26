package devicetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
)

// SampleEnv is the environment variable that selects the checks of the ops: "all", or a number, the seed of a sample.
// Without it the seed is fixed.
const SampleEnv = "RLX_CONFORMANCE"

// share is the part of an op's checks that a sample has at least: over 35 seeds, 99 of 100 checks are made.
const share = 0.125

// sample is a choice among the checks of ops, the same for the same seed. Checks do not depend on the seed: one that fails in a
// sample also fails where all are made.
type sample struct {
	all  bool
	seed uint64
}

// sampleFromEnv reads SampleEnv.
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

// String says how to make the same choice again.
func (s sample) String() string {
	if s.all {
		return SampleEnv + "=all"
	}
	return fmt.Sprintf("%s=%d", SampleEnv, s.seed)
}

// pick chooses among the checks of an op: a share of them, and what it takes to have one of each kind and one for each
// element type of an operand and of a result. They stay in their order.
func (s sample) pick(op string, checks []check) []check {
	if s.all {
		return checks
	}
	rng := rand.New(rand.NewPCG(s.seed, seedOf(op)))
	seen, taken := map[string]bool{}, make([]bool, len(checks))
	for _, i := range rng.Perm(len(checks)) {
		taken[i] = rng.Float64() < share
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

// some are n of the numbers below limit, in order; all of them where nothing is left out.
func (s sample) some(n, limit uint64) (out []uint64) {
	rng := rand.New(rand.NewPCG(s.seed, 19))
	for k := range limit {
		if s.all || rng.Uint64N(limit-k) < n-uint64(len(out)) {
			out = append(out, k)
		}
	}
	return out
}
