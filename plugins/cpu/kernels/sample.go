package kernels

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/rlx-go/rlx/core/random"
)

// SampleArgs are the arguments of Sample. Temperature, TopK, TopP and MinP hold one value or one for each row, Seed and Step a pair of words.
type SampleArgs struct {
	N           int
	Logits      Weights // rows of N
	Temperature []float32
	TopK        []int32
	TopP        []float32
	MinP        []float32 // nil: none
	Seed, Step  []uint32
	Out         []int32 // a token for each row
	Alone       bool    // each row is drawn as row 0 of a single one
}

// Sample draws a token for each row as op.SampleDef says. The error names values that it refuses.
//
// Survivors are found by a radix select, first on counts and then on probabilities: a few passes over the row, however many survive.
// Probabilities are summed as integers, so that the order does not matter. Only tokens that can still win get a random number.
// Threads take rows, or parts of one that is long.
func Sample(p *Pool, a SampleArgs) error {
	rows := len(a.Out)
	for row := range rows {
		minP := float32(0)
		if a.MinP != nil {
			minP = forRow(a.MinP, row)
		}
		switch t, k, top := forRow(a.Temperature, row), int(forRow(a.TopK, row)), forRow(a.TopP, row); {
		case t-t != 0:
			return fmt.Errorf("sample: temperature of row %d is %v; want a finite number", row, t)
		case k < 0 || k > a.N:
			return fmt.Errorf("sample: top_k of row %d is %d; want 0 to %d", row, k, a.N)
		case !(top >= 0 && top <= 1):
			return fmt.Errorf("sample: top_p of row %d is %v; want 0 to 1", row, top)
		case !(minP >= 0 && minP <= 1):
			return fmt.Errorf("sample: min_p of row %d is %v; want 0 to 1", row, minP)
		}
	}
	g := keep[sampling](p)
	g.p, g.SampleArgs = p, a
	if g.lines == nil {
		g.lines = make([]sampledRow, len(p.workers))
	}
	p.bad.Store(0)
	if rows < len(p.workers) && a.N >= sampledAlone {
		for row := range rows {
			g.lines[0].sample(g, row, len(p.workers))
		}
	} else {
		p.share(rows, 1+elementGrain/(8*a.N), g)
	}
	if row := p.bad.Load(); row > 0 {
		return fmt.Errorf("sample: row %d of the logits is NaN only; want a number", row-1)
	}
	return nil
}

func forRow[T any](x []T, row int) T {
	if len(x) == 1 {
		return x[0]
	}
	return x[row]
}

func pairForRow(x []uint32, row int) [2]uint32 {
	if len(x) == 2 {
		row = 0
	}
	return [2]uint32{x[2*row], x[2*row+1]}
}

const (
	sampledAlone = 1 << 14 // tokens of a row that several threads look at
	selectBits   = 11      // of a key, by which a pass selects
	mostGumbel   = 16.7    // a little more than any
	bands        = 64      // of logits, for which draw knows what can win
)

type sampling struct {
	SampleArgs
	p     *Pool
	lines []sampledRow
}

func (g *sampling) do(lo, hi, worker int) {
	for row := lo; row < hi; row++ {
		g.lines[worker].sample(g, row, 1)
	}
}

// sampledRow is a row at work, in parts that threads take.
type sampledRow struct {
	g       *sampling
	row     int
	counter uint32 // row, or 0 if it is drawn alone
	x       []float32
	wide    []float32 // memory for x where logits are narrow
	parts   []sampledPart
	phase   samplePhase

	top         float32 // the largest logit
	temperature float64
	least       uint32 // survivors have a larger key, or this one: the first equal of them
	equal       uint64
	weigh       bool // by probability, not one by one
	scale       float64
	from, width int    // the bits of keys by which elements are selected
	prefix      uint32 // and what is above them
	key         [2]uint32
	first       drawn // the largest logit's token
}

// drawn is a token and the sum by which it may win.
type drawn struct {
	sum   float64
	token int
}

// before reports whether a wins against b.
func (a drawn) before(b drawn) bool { return a.sum > b.sum || a.sum == b.sum && a.token < b.token }

// sampledPart is what one thread has of a row.
type sampledPart struct {
	lo, hi  int
	top     float32
	at      int // of top; -1: there are no numbers
	equal   int // elements of the least key before the part
	best    drawn
	weights [1 << selectBits]uint64
	left    [256]float32 // survivors of a block
	below   [256]float32
	most    [bands + 1]uint32
}

type samplePhase int

const (
	topPhase samplePhase = iota
	selectPhase
	equalPhase
	drawPhase
)

func (s *sampledRow) sample(g *sampling, row, parts int) {
	n := g.N
	s.g, s.row, s.counter = g, row, uint32(row)
	if g.Alone {
		s.counter = 0
	}
	if g.Logits.half != nil {
		s.wide = sized(s.wide, n)
	}
	s.x = g.Logits.row(g.p.isa, row*n, n, s.wide)
	if len(s.parts) < parts {
		s.parts = make([]sampledPart, parts)
	}
	for i := range parts {
		s.parts[i].lo, s.parts[i].hi = i*n/parts, (i+1)*n/parts
	}
	s.each(parts, topPhase)
	at := -1
	for i := range parts {
		if part := &s.parts[i]; part.at >= 0 && (at < 0 || part.top > s.top) {
			s.top, at = part.top, part.at
		}
	}
	s.temperature = float64(forRow(g.Temperature, row))
	k, p := int(forRow(g.TopK, row)), float64(forRow(g.TopP, row))
	switch {
	case at < 0:
		g.p.bad.Store(int64(row) + 1)
		return
	case s.temperature <= 0:
		g.Out[row] = int32(at)
		return
	}
	s.least, s.equal = 1, math.MaxUint64 // all numbers
	if k > 0 && k < n {
		s.weigh, s.scale = false, 1
		s.selectKeys(parts, func(uint64) uint64 { return uint64(k) })
	}
	if p < 1 {
		s.weigh, s.scale = true, math.Ldexp(1, 62-bits.Len(uint(n)))
		s.selectKeys(parts, func(total uint64) uint64 { return max(1, uint64(math.Ceil(p*float64(total)))) })
	}
	if g.MinP != nil {
		s.drop(float64(forRow(g.MinP, row)))
	}
	s.key = random.Threefry(pairForRow(g.Step, row), pairForRow(g.Seed, row))
	s.first = drawn{s.gumbel(at), at}
	if s.equal < uint64(n) {
		s.each(parts, equalPhase)
		before := 0
		for i := range parts {
			before, s.parts[i].equal = before+s.parts[i].equal, before
		}
	}
	s.each(parts, drawPhase)
	best := s.first
	for i := range parts {
		if b := s.parts[i].best; b.before(best) {
			best = b
		}
	}
	g.Out[row] = int32(best.token)
}

func (s *sampledRow) each(parts int, phase samplePhase) {
	if s.phase = phase; parts == 1 {
		s.do(0, 1, 0)
		return
	}
	s.g.p.each(parts, 1, s)
}

func (s *sampledRow) do(lo, hi, _ int) {
	for i := lo; i < hi; i++ {
		switch part := &s.parts[i]; s.phase {
		case topPhase:
			part.findTop(s.x)
		case selectPhase:
			s.count(part)
		case equalPhase:
			part.equal = 0
			least := valueOf(s.least)
			for _, v := range s.x[part.lo:part.hi] {
				if v == least {
					part.equal++
				}
			}
		case drawPhase:
			s.draw(part)
		}
	}
}

func (part *sampledPart) findTop(x []float32) {
	part.at = -1
	for i, v := range x[part.lo:part.hi] {
		if v > part.top || part.at < 0 && v == v {
			part.top, part.at = v, part.lo+i
		}
	}
}

// keyOf is a number in the order of the numbers; both zeros have one, and NaN has 0.
func keyOf(x float32) uint32 {
	if x != x {
		return 0
	}
	b := math.Float32bits(x + 0)
	return b ^ (uint32(int32(b)>>31) | 1<<31)
}

// valueOf is the number of a key; -Inf for those below it.
func valueOf(key uint32) float32 {
	if key < keyOf(float32(math.Inf(-1))) {
		return float32(math.Inf(-1))
	}
	if key>>31 == 0 {
		return math.Float32frombits(^key)
	}
	return math.Float32frombits(key ^ 1<<31)
}

// selectKeys raises least to the key at which the weights of the survivors, from the largest down, reach the goal of their sum.
func (s *sampledRow) selectKeys(parts int, goal func(total uint64) uint64) {
	s.prefix, s.from, s.width = 0, 32, 0
	least, limit := s.least, s.equal
	want, above := uint64(0), uint64(0)
	var weight uint64 // of the elements of the key that was found
	for s.from > 0 {
		s.width = min(selectBits, s.from)
		s.from -= s.width
		s.each(parts, selectPhase)
		sums := &s.parts[0].weights
		for i := 1; i < parts; i++ {
			for d, w := range s.parts[i].weights[:1<<s.width] {
				sums[d] += w
			}
		}
		if want == 0 {
			total := uint64(0)
			for _, w := range sums[:1<<s.width] {
				total += w
			}
			if limit != math.MaxUint64 { // not all of the least key survive
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

// drop raises least to the first key whose probability is minP times the largest.
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

// beyond is the weight of the elements of a key after the first limit.
func (s *sampledRow) beyond(key uint32, limit uint64) uint64 {
	n, v := uint64(0), valueOf(key)
	for _, x := range s.x {
		if x == v {
			n++
		}
	}
	return (n - min(n, limit)) * s.weight(v)
}

// weight is that of an element in the sums of selectKeys.
func (s *sampledRow) weight(x float32) uint64 {
	if !s.weigh {
		return 1
	}
	buf := [1]float32{s.scaled(x)}
	s.g.p.isa.apply(Exp, buf[:], buf[:])
	return uint64(float64(buf[0]) * s.scale)
}

// scaled is how far a logit is below the largest, divided by the temperature.
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
			s.g.p.isa.apply(Exp, weights, weights)
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

// gumbel is the sum by which token i may win.
func (s *sampledRow) gumbel(i int) float64 {
	word := random.Threefry([2]uint32{s.counter, uint32(i)}, s.key)[0]
	return s.below(s.x[i]) + random.Gumbel(word)
}

func (s *sampledRow) below(x float32) float64 {
	if x == s.top {
		return 0
	}
	return (float64(x) - float64(s.top)) / s.temperature
}

// draw finds the token of a part that wins. A token is passed over if no random number could make it win, or if its own is too small:
// its sum is at most that with -ln u replaced by 1-u, which is never larger. The largest 1-u that can win is kept for bands of logits.
func (s *sampledRow) draw(part *sampledPart) {
	best, rank, least := s.first, uint64(part.equal), valueOf(s.least)
	width := mostGumbel * s.temperature / bands // of a band; none reaches lower than the last one
	var enough float64                          // the logit below which none can win
	bound := func() {
		enough = float64(s.top) + (best.sum-mostGumbel)*s.temperature
		for i := range part.most {
			part.most[i] = uint32(min(1<<24, math.Exp(-best.sum-float64(i)*mostGumbel/bands)*(1<<24)*(1+1e-6)+1)) // a band's largest logit counts
		}
	}
	bound()
	for i, v := range s.x[part.lo:part.hi] {
		if !(v >= least) {
			continue
		}
		if v == least {
			if rank++; rank > s.equal {
				continue
			}
		}
		if float64(v) < enough {
			continue
		}
		token, band := part.lo+i, 0
		if v != s.top {
			band = int(max(0, min(bands, (float64(s.top)-float64(v))/width-1e-6)))
		}
		word := random.Threefry([2]uint32{s.counter, uint32(token)}, s.key)[0]
		if 1<<24-word>>8 > part.most[band] {
			continue
		}
		if d := (drawn{s.below(v) + random.Gumbel(word), token}); d.before(best) {
			best = d
			bound()
		}
	}
	part.best = best
}

// SampleScratch is what Sample needs for rows of n elements of so many bytes.
func SampleScratch(p *Pool, n, size int) ScratchSize {
	each := sizeOf[sampledPart](1)
	if size < 4 {
		each += floats(n)
	}
	return ScratchSize{Other: int64(len(p.workers))*each + sizeOf[sampledPart](len(p.workers))}
}
