package kernels

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

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
// Survivors are found by a radix select, first on counts and then on probabilities: a few passes, of which all but the first read a list
// of the few logits that can still survive. Probabilities are summed as integers, so that the order does not matter. Only tokens that can
// still win get a random number. Threads take rows, or parts of one that is long.
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
	sampledBlock = 64      // tokens whose largest logit is known
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
	counter uint32    // row, or 0 if it is drawn alone
	x       []float32 // the row, or the logits of tokens
	tokens  []int32   // nil: all
	tops    []float32 // the largest number of each block of the row, -Inf if there is none; nil where x is not the row
	parts   []sampledPart
	active  int // parts of x
	phase   samplePhase

	wide, blocks, values []float32 // memory for x where logits are narrow, for tops, and for x and tokens where few logits are left
	list                 []int32

	top         float32 // the largest logit
	temperature float64
	least       uint32 // survivors have a larger key, or this one: the first equal of them
	equal       uint64
	weigh       bool // by probability, not one by one
	scale       float64
	from, width int     // the bits of keys by which elements are selected
	prefix      uint32  // and what is above them
	floor       float32 // of narrow
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
	kept    int // logits of at least floor; -1: too many
	equal   int // elements of the least key before the part
	best    drawn
	weights [1 << selectBits]uint64
	left    [256]float32 // survivors of a block
	below   [256]float32
	most    [bands + 1]uint32
	words   [sampledBlock]uint32 // the random numbers of a block
}

type samplePhase int

const (
	topPhase samplePhase = iota
	narrowPhase
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
	blocks, room := sampledSizes(n)
	s.blocks, s.values, s.list = sized(s.blocks, blocks), sized(s.values, room), sized(s.list, room)
	s.tokens, s.tops = nil, s.blocks
	if len(s.parts) < parts {
		s.parts = make([]sampledPart, parts)
	}
	s.cut(parts)
	s.each(topPhase)
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
		if k <= len(s.tops)/2 {
			s.narrow(s.topOfBlocks(k)) // k blocks have one as large
		}
		s.selectKeys(func(uint64) uint64 { return uint64(k) })
	}
	if p < 1 {
		s.weigh, s.scale = true, math.Ldexp(1, 62-bits.Len(uint(n)))
		s.selectKeys(func(total uint64) uint64 { return max(1, uint64(math.Ceil(p*float64(total)))) })
	}
	if g.MinP != nil {
		s.drop(float64(forRow(g.MinP, row)))
	}
	s.key = random.Threefry(pairForRow(g.Step, row), pairForRow(g.Seed, row))
	s.first = drawn{s.gumbel(at, s.top), at}
	if s.equal != math.MaxUint64 {
		s.each(equalPhase)
		before := 0
		for i := range s.active {
			before, s.parts[i].equal = before+s.parts[i].equal, before
		}
	}
	s.each(drawPhase)
	best := s.first
	for i := range s.active {
		if b := s.parts[i].best; b.before(best) {
			best = b
		}
	}
	g.Out[row] = int32(best.token)
}

// cut divides x into parts, at the bounds of blocks.
func (s *sampledRow) cut(parts int) {
	s.active = parts
	blocks := (len(s.x) + sampledBlock - 1) / sampledBlock
	for i := range parts {
		s.parts[i].lo, s.parts[i].hi = i*blocks/parts*sampledBlock, min(len(s.x), (i+1)*blocks/parts*sampledBlock)
	}
}

func (s *sampledRow) each(phase samplePhase) {
	if s.phase = phase; s.active == 1 {
		s.do(0, 1, 0)
		return
	}
	s.g.p.each(s.active, 1, s)
}

func (s *sampledRow) do(lo, hi, _ int) {
	for i := lo; i < hi; i++ {
		switch part := &s.parts[i]; s.phase {
		case topPhase:
			s.findTop(part)
		case narrowPhase:
			room := len(s.values) / s.active
			part.kept = s.keepFrom(part, s.values[i*room:][:room], s.list[i*room:][:room])
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

// findTop finds the largest number of a part and those of its blocks.
func (s *sampledRow) findTop(part *sampledPart) {
	part.at = -1
	for lo := part.lo; lo < part.hi; lo += sampledBlock {
		x := s.x[lo:min(part.hi, lo+sampledBlock)]
		top := s.g.p.isa.largestNumber(x)
		s.tops[lo/sampledBlock] = top
		if part.at < 0 || top > part.top {
			if i := slices.Index(x, top); i >= 0 {
				part.top, part.at = x[i], lo+i
			}
		}
	}
}

// largestNumber is the largest element that is not NaN, -Inf if there is none.
func (s *isa) largestNumber(x []float32) float32 {
	if s.folds != nil && len(x) > 0 {
		if top := float32(s.folds.row[ReduceMax](&x[0], len(x))); top == top {
			return top
		}
	}
	top := float32(math.Inf(-1))
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	return top
}

// gumbel is the sum by which a token may win.
func (s *sampledRow) gumbel(token int, x float32) float64 {
	word := random.Threefry([2]uint32{s.counter, uint32(token)}, s.key)[0]
	return s.below(x) + random.Gumbel(word)
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
	vector := s.g.p.isa.threefry
	if s.tokens != nil {
		vector = nil // they do not follow each other
	}
	perLogit := bands / (mostGumbel * s.temperature) // bands; none reaches lower than the last one
	var enough float64                               // the logit below which none can win
	bound := func() {
		enough = float64(s.top) + (best.sum-mostGumbel)*s.temperature
		for i := range part.most {
			part.most[i] = uint32(min(1<<24, math.Exp(-best.sum-float64(i)*mostGumbel/bands)*(1<<24)*(1+1e-6)+1)) // a band's largest logit counts
		}
	}
	bound()
	for lo := part.lo; lo < part.hi; lo += sampledBlock {
		if s.tops != nil {
			if top := s.tops[lo/sampledBlock]; top < least || float64(top) < enough {
				continue
			}
		}
		if vector != nil {
			vector(part.words[:], s.counter, uint32(lo), s.key)
		}
		for i, v := range s.x[lo:min(part.hi, lo+sampledBlock)] {
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
			token, band := s.token(lo+i), 0
			if v != s.top {
				band = int(max(0, min(bands, (float64(s.top)-float64(v))*perLogit-1e-6)))
			}
			word := part.words[i]
			if vector == nil {
				word = random.Threefry([2]uint32{s.counter, uint32(token)}, s.key)[0]
			}
			if 1<<24-word>>8 > part.most[band] {
				continue
			}
			if d := (drawn{s.below(v) + random.Gumbel(word), token}); d.before(best) {
				best = d
				bound()
			}
		}
	}
	part.best = best
}

// sampledSizes is how many blocks a row of n logits has, and how many logits there is a list for.
func sampledSizes(n int) (blocks, room int) {
	return (n + sampledBlock - 1) / sampledBlock, n/8 + sampledBlock
}

// SampleScratch is what Sample needs for rows of n elements of so many bytes.
func SampleScratch(p *Pool, n, size int) ScratchSize {
	blocks, room := sampledSizes(n)
	each := sizeOf[sampledPart](1) + floats(blocks, room, room)
	if size < 4 {
		each += floats(n)
	}
	return ScratchSize{Other: int64(len(p.workers))*each + sizeOf[sampledPart](len(p.workers))}
}
