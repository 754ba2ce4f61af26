// Package sample draws tokens from logits.
package sample

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/rlx-go/rlx/core/random"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/isa"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/pool"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/reduce"
	"github.com/rlx-go/rlx/plugins/cpu/kernels/stored"
)

// Args are the arguments of Sample. Temperature, TopK, TopP and MinP have one value, or one for each row. Seed
// and Step have a pair of words, or a pair for each row.
type Args struct {
	N           int           // logits of a row
	Logits      stored.Values // [rows, N]
	Temperature []float32
	TopK        []int32
	TopP        []float32
	MinP        []float32 // may be nil
	Seed, Step  []uint32
	Out         []int32 // the token of each row
	Alone       bool    // draw each row as if it were row 0
}

// Draw draws a token for each row as op.SampleDef defines. It returns an error for parameters out of range and for
// rows of NaN.
//
// Survivors of top_k and top_p are found by a radix select, first on counts and then on probabilities: a few passes,
// all but the first over a short list of the logits that can still survive. Probabilities are summed as integers, so
// that the order does not matter. A random number is computed only for tokens that can still win. Threads share rows,
// or parts of long ones.
func Draw(p *pool.Pool, a Args) error {
	rows := len(a.Out)
	for row := range rows {
		minP := float32(0)
		if a.MinP != nil {
			minP = forRow(a.MinP, row)
		}
		switch t, k, top := forRow(a.Temperature, row), int(forRow(a.TopK, row)), forRow(a.TopP, row); {
		case t-t != 0:
			return fmt.Errorf("temperature of row %d is %v; want a finite number", row, t)
		case k < 0 || k > a.N:
			return fmt.Errorf("top_k of row %d is %d; want 0 to %d", row, k, a.N)
		case !(top >= 0 && top <= 1):
			return fmt.Errorf("top_p of row %d is %v; want 0 to 1", row, top)
		case !(minP >= 0 && minP <= 1):
			return fmt.Errorf("min_p of row %d is %v; want 0 to 1", row, minP)
		}
	}
	g := pool.Keep[sampling](p)
	g.p, g.Args = p, a
	if g.lines == nil {
		g.lines = make([]sampledRow, p.Threads())
	}
	p.Bad.Store(0)
	if rows < p.Threads() && a.N >= sampledAlone {
		for row := range rows {
			g.lines[0].sample(g, row, p.Threads())
		}
	} else {
		p.Share(rows, 1+pool.Grain/(8*a.N), g)
	}
	if row := p.Bad.Load(); row > 0 {
		return fmt.Errorf("row %d of the logits is NaN only; want a number", row-1)
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
	sampledAlone = 1 << 14 // rows of at least this many tokens may be divided among threads
	sampledBlock = 64      // tokens of a block; see sampledRow.tops
	selectBits   = 11      // bits of a key that a pass selects by
	mostGumbel   = 16.7    // slightly above the largest value of random.Gumbel
	bands        = 64      // ranges of logits for which draw knows which random numbers can win
)

type sampling struct {
	Args
	p     *pool.Pool
	lines []sampledRow
}

func (g *sampling) Do(lo, hi, worker int) {
	for row := lo; row < hi; row++ {
		g.lines[worker].sample(g, row, 1)
	}
}

// sampledRow is the state of one row. It is divided into parts, which threads share.
type sampledRow struct {
	g       *sampling
	row     int
	counter uint32    // row, or 0 if Args.Alone is set
	x       []float32 // the logits of the row, or of tokens
	tokens  []int32   // the tokens of x; nil: all
	tops    []float32 // the largest number of each block of x, -Inf if all are NaN; nil if x is not the whole row
	parts   []sampledPart
	active  int // parts that x is divided into
	phase   samplePhase

	wide, blocks, values []float32 // memory for x if logits are f16 or bf16, for tops, and for x after narrow
	list                 []int32   // memory for tokens

	top         float32 // the largest logit
	temperature float64
	least       uint32 // survivors have a key above least, or are among the first equal tokens with key least
	equal       uint64
	weigh       bool    // selectKeys sums probabilities, not counts
	scale       float64 // of probabilities as integers
	from, width int     // selectKeys selects by bits [from, from+width) of keys
	prefix      uint32  // the bits above them
	floor       float32 // the argument of narrow
	key         [2]uint32
	first       drawn // the token of the largest logit
}

// drawn is a token and its score. The largest score wins.
type drawn struct {
	sum   float64
	token int
}

// before reports whether a wins against b.
func (a drawn) before(b drawn) bool { return a.sum > b.sum || a.sum == b.sum && a.token < b.token }

// sampledPart is the part of a row that one thread computes: x[lo:hi].
type sampledPart struct {
	lo, hi  int
	top     float32
	at      int // index of top; -1: all are NaN
	kept    int // number of logits that keepFrom has kept; -1: too many
	equal   int // elements with key least before the part
	best    drawn
	weights [1 << selectBits]uint64 // the sums of a pass of selectKeys
	left    [256]float32            // survivors of a block
	below   [256]float32            // their probabilities
	most    [bands + 1]uint32       // the largest 1-u that can win, for each range of logits
	words   [sampledBlock]uint32    // the random numbers of a block
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
	if g.Logits.Halves != nil {
		s.wide = pool.Sized(s.wide, n)
	}
	s.x = g.Logits.Row(g.p.Set, row*n, n, s.wide)
	blocks, room := sampledSizes(n)
	s.blocks, s.values, s.list = pool.Sized(s.blocks, blocks), pool.Sized(s.values, room), pool.Sized(s.list, room)
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
		g.p.Bad.Store(int64(row) + 1)
		return
	case s.temperature <= 0:
		g.Out[row] = int32(at)
		return
	}
	s.least, s.equal = 1, math.MaxUint64 // all numbers
	if k > 0 && k < n {
		s.weigh, s.scale = false, 1
		if k <= len(s.tops)/2 {
			s.narrow(s.topOfBlocks(k)) // k blocks have a logit at least as large
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

// cut divides x into parts of whole blocks.
func (s *sampledRow) cut(parts int) {
	s.active = parts
	blocks := (len(s.x) + sampledBlock - 1) / sampledBlock
	for i := range parts {
		s.parts[i].lo, s.parts[i].hi = i*blocks/parts*sampledBlock, min(len(s.x), (i+1)*blocks/parts*sampledBlock)
	}
}

func (s *sampledRow) each(phase samplePhase) {
	s.phase = phase
	if s.active == 1 {
		s.Do(0, 1, 0)
		return
	}
	s.g.p.Each(s.active, 1, s)
}

func (s *sampledRow) Do(lo, hi, _ int) {
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

// findTop finds the largest number of a part and of each of its blocks.
func (s *sampledRow) findTop(part *sampledPart) {
	part.at = -1
	for lo := part.lo; lo < part.hi; lo += sampledBlock {
		x := s.x[lo:min(part.hi, lo+sampledBlock)]
		top := largestNumber(s.g.p.Set, x)
		s.tops[lo/sampledBlock] = top
		if part.at < 0 || top > part.top {
			if i := slices.Index(x, top); i >= 0 {
				part.top, part.at = x[i], lo+i
			}
		}
	}
}

// largestNumber returns the largest element that is not NaN, or -Inf if all are NaN.
func largestNumber(s *isa.Set, x []float32) float32 {
	if reduce.On(s).Folds != nil && len(x) > 0 {
		if top := float32(reduce.On(s).Folds.Row[reduce.Max](&x[0], len(x))); top == top {
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

// gumbel returns the score of a token with logit x: below(x) plus Gumbel noise.
func (s *sampledRow) gumbel(token int, x float32) float64 {
	word := random.Threefry([2]uint32{s.counter, uint32(token)}, s.key)[0]
	return s.below(x) + random.Gumbel(word)
}

// below returns (x - top) / temperature.
func (s *sampledRow) below(x float32) float64 {
	if x == s.top {
		return 0
	}
	return (float64(x) - float64(s.top)) / s.temperature
}

// draw finds the token of a part with the largest score. It skips tokens that cannot win with any random number u, and
// tokens whose own u is too small. Since 1-u <= -ln u, replacing -ln u by 1-u gives an upper bound of the score. For
// each of some ranges of logits, part.most is the largest 1-u that can win.
func (s *sampledRow) draw(part *sampledPart) {
	best, rank, least := s.first, uint64(part.equal), valueOf(s.least)
	vector := on(s.g.p.Set).threefry
	if s.tokens != nil {
		vector = nil // the tokens are not consecutive
	}
	perLogit := bands / (mostGumbel * s.temperature) // ranges per unit of logit; the last range extends to -Inf
	var enough float64                               // no smaller logit can win
	bound := func() {
		enough = float64(s.top) + (best.sum-mostGumbel)*s.temperature
		for i := range part.most {
			// for the largest logit of the range
			part.most[i] = uint32(min(1<<24, math.Exp(-best.sum-float64(i)*mostGumbel/bands)*(1<<24)*(1+1e-6)+1))
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

// sampledSizes returns how many blocks a row of n logits has, and how many logits narrow can keep.
func sampledSizes(n int) (blocks, room int) {
	return (n + sampledBlock - 1) / sampledBlock, n/8 + sampledBlock
}

// Scratch returns what Sample needs for rows of n elements of size bytes.
func Scratch(p *pool.Pool, n, size int) pool.Size {
	blocks, room := sampledSizes(n)
	each := pool.SizeOf[sampledPart](1) + pool.FloatBytes(blocks, room, room)
	if size < 4 {
		each += pool.FloatBytes(n)
	}
	return pool.Size{Other: int64(p.Threads())*each + pool.SizeOf[sampledPart](p.Threads())}
}
