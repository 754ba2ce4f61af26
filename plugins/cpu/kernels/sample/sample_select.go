package sample

import (
	"math"

	"github.com/rlx-go/rlx/plugins/cpu/kernels/elementwise"
)

// keyOf maps numbers to integers in the same order. Both zeros have the same key, and NaN has key 0.
func keyOf(x float32) uint32 {
	if x != x {
		return 0
	}
	b := math.Float32bits(x + 0)
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

// valueOf returns the number that has a key; -Inf for keys below that of -Inf.
func valueOf(key uint32) float32 {
	if key < keyOf(float32(math.Inf(-1))) {
		return float32(math.Inf(-1))
	}
	if key>>31 == 0 {
		return math.Float32frombits(^key)
	}
	return math.Float32frombits(key ^ 1<<31)
}

// selectKeys raises least, and sets equal, so that the survivors are the fewest largest elements whose weights add up
// to goal(total), where total is the sum of all weights.
func (s *sampledRow) selectKeys(goal func(total uint64) uint64) {
	s.prefix, s.from, s.width = 0, 32, 0
	least, limit := s.least, s.equal
	want, above := uint64(0), uint64(0)
	var weight uint64 // of all elements with the key that was found
	for s.from > 0 {
		s.width = min(selectBits, s.from)
		s.from -= s.width
		s.each(selectPhase)
		sums := &s.parts[0].weights
		for i := 1; i < s.active; i++ {
			for d, w := range s.parts[i].weights[:1<<s.width] {
				sums[d] += w
			}
		}
		if want == 0 {
			total := uint64(0)
			for _, w := range sums[:1<<s.width] {
				total += w
			}
			if limit != math.MaxUint64 { // not all elements with the least key survive
				total -= s.beyond(least, limit)
			}
			want = min(goal(total), max(1, total))
		}
		d := 1<<s.width - 1
		for ; d > 0 && above+sums[d] < want; d-- {
			above += sums[d]
		}
		s.prefix = s.prefix<<s.width | uint32(d)
		weight = sums[d]
		if s.from == 32-selectBits {
			s.narrow(valueOf(s.prefix << s.from))
		}
	}
	if s.prefix <= least && limit == math.MaxUint64 {
		return // everything survives
	}
	one := s.weight(valueOf(s.prefix))
	s.least, s.equal = s.prefix, (min(want-above, weight)+one-1)/max(1, one)
	if s.prefix == least {
		s.equal = min(s.equal, limit)
	}
}

// topOfBlocks returns the k-th largest element of tops.
func (s *sampledRow) topOfBlocks(k int) float32 {
	x, tops, parts := s.x, s.tops, s.active
	s.x, s.tops = tops, nil
	s.cut(1)
	s.selectKeys(func(uint64) uint64 { return uint64(k) })
	floor := valueOf(s.least)
	s.x, s.tokens, s.tops, s.least, s.equal = x, nil, tops, 1, math.MaxUint64
	s.cut(parts)
	return floor
}

// narrow replaces x by the list of its elements that are at least floor, if the list is short enough.
func (s *sampledRow) narrow(floor float32) {
	if s.tokens != nil && s.active > 1 {
		return // parts of the list would overwrite each other
	}
	s.floor = floor
	s.each(narrowPhase)
	n, room := 0, len(s.values)/s.active
	for i := range s.active {
		if s.parts[i].kept < 0 {
			return
		}
	}
	for i := range s.active {
		kept := s.parts[i].kept
		copy(s.values[n:], s.values[i*room:][:kept])
		copy(s.list[n:], s.list[i*room:][:kept])
		n += kept
	}
	s.x, s.tokens, s.tops = s.values[:n], s.list[:n], nil
	s.cut(min(s.active, 1+n/sampledAlone))
}

// keepFrom copies the logits of a part that are at least floor, and their tokens. It returns their number, or -1 if
// there is no room for all.
func (s *sampledRow) keepFrom(part *sampledPart, values []float32, tokens []int32) int {
	n := 0
	for lo := part.lo; lo < part.hi; lo += sampledBlock {
		if s.tops != nil && s.tops[lo/sampledBlock] < s.floor {
			continue
		}
		for i, v := range s.x[lo:min(part.hi, lo+sampledBlock)] {
			if !(v >= s.floor) {
				continue
			}
			if n == len(values) {
				return -1
			}
			values[n], tokens[n] = v, int32(s.token(lo+i))
			n++
		}
	}
	return n
}

// token returns the token of x[i].
func (s *sampledRow) token(i int) int {
	if s.tokens == nil {
		return i
	}
	return int(s.tokens[i])
}

// drop raises least to the first key with at least minP times the largest probability.
func (s *sampledRow) drop(minP float64) {
	if minP == 0 {
		return
	}
	floor := float64(s.top) + s.temperature*math.Log(minP)
	least := float32(floor)
	for s.below(least) < math.Log(minP) {
		least = math.Nextafter32(least, float32(math.Inf(1)))
	}
	if key := keyOf(min(least, s.top)); key > s.least {
		s.least, s.equal = key, math.MaxUint64
	}
}

// beyond returns the weight of all elements with a key except the first limit.
func (s *sampledRow) beyond(key uint32, limit uint64) uint64 {
	n, v := uint64(0), valueOf(key)
	for _, x := range s.x {
		if x == v {
			n++
		}
	}
	return (n - min(n, limit)) * s.weight(v)
}

// weight returns the weight of an element in selectKeys: 1, or its probability as an integer.
func (s *sampledRow) weight(x float32) uint64 {
	if !s.weigh {
		return 1
	}
	buf := [1]float32{s.scaled(x)}
	elementwise.Apply(s.g.p.Set, elementwise.Exp, buf[:], buf[:])
	return uint64(float64(buf[0]) * s.scale)
}

// scaled is below in float32.
func (s *sampledRow) scaled(x float32) float32 {
	if x == s.top {
		return 0
	}
	return (x - s.top) / float32(s.temperature)
}

func (s *sampledRow) count(part *sampledPart) {
	clear(part.weights[:1<<s.width])
	above, mask := s.from+s.width, uint32(1)<<s.width-1
	least := valueOf(max(s.least, uint32(uint64(s.prefix)<<above)))
	for lo := part.lo; lo < part.hi; lo += len(part.left) {
		n := 0
		for _, v := range s.x[lo:min(part.hi, lo+len(part.left))] {
			part.left[n] = v
			if v >= least {
				n++
			}
		}
		left, weights := part.left[:n], part.below[:n]
		if s.weigh && n > 0 {
			for i, v := range left {
				weights[i] = s.scaled(v)
			}
			elementwise.Apply(s.g.p.Set, elementwise.Exp, weights, weights)
		}
		for i, v := range left {
			key := keyOf(v)
			if uint64(key)>>above != uint64(s.prefix) {
				continue
			}
			w := uint64(1)
			if s.weigh {
				w = uint64(float64(weights[i]) * s.scale)
			}
			part.weights[key>>s.from&mask] += w
		}
	}
}
