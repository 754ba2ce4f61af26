package text

import (
	"cmp"
	"context"
	"slices"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/tensor"
)

// If the state is in pages, a text takes pages as it grows. It begins when there are enough for its prompt; until then
// it waits, and those that came first begin first. If no page is left, the text that began last gives up its pages and
// waits again. So the text that began first never waits. What a text has computed stays in the tree of pages until
// another text needs the place; then it has to be computed again.

// Pages returns numbers about the pages that texts share. All are 0 if each text has a part of the state to itself.
func (b *Batch) Pages() PageStats {
	if b.pages == nil {
		return PageStats{}
	}
	return b.pages.stats
}

// needs returns the number of pages for n tokens and the next one.
func (b *Batch) needs(n int) int {
	return min(n/b.pages.rows+1, b.spec.perSequence())
}

// admit lets waiting texts begin, in their order, while there are pages for them.
func (b *Batch) admit() {
	for len(b.waiting) > 0 && (b.Len() == len(b.waiting) || b.fits(b.waiting[0])) {
		x := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.prompts = append(b.prompts, x)
	}
}

// fits reports whether there are pages for a waiting text, beside those that the prompts in progress will take and one
// for each text.
func (b *Batch) fits(x *BatchText) bool {
	need := b.needs(len(x.rest)) + len(b.texts)
	whole, _, _ := b.pages.find(x.rest[:len(x.rest)-1], b.Alike)
	for _, id := range whole {
		if b.pages.all[id].texts > 0 {
			need--
		}
	}
	for _, y := range b.prompts {
		s := &b.slots[y.slot]
		need += max(0, b.needs(len(s.seen)+len(y.rest))-len(s.pages))
	}
	return need <= b.pages.available()
}

// withRoom returns those of some texts that have pages for n more tokens. It takes the pages, first for those that
// began first.
func (b *Batch) withRoom(texts []*BatchText, n int) []*BatchText {
	if b.pages == nil {
		return texts
	}
	older := func(x, y *BatchText) int { return cmp.Compare(x.number, y.number) }
	order := slices.SortedFunc(slices.Values(texts), older)
	has := map[*BatchText]bool{}
	for _, x := range order {
		has[x] = !slices.Contains(b.waiting, x) && b.room(x, n)
	}
	return slices.DeleteFunc(slices.Clone(texts), func(x *BatchText) bool {
		return !has[x] || slices.Contains(b.waiting, x) // it may have given up its pages
	})
}

// room takes pages for n more tokens of a text, if necessary from texts that began later.
func (b *Batch) room(x *BatchText, n int) bool {
	s := &b.slots[x.slot]
	for len(s.pages)*b.pages.rows < len(s.seen)+n {
		if id, ok := b.pages.take(); ok {
			s.pages = append(s.pages, id)
			continue
		}
		last := x
		for _, y := range slices.Concat(b.prompts, b.texts) {
			if y.number > last.number && !y.flying && len(b.slots[y.slot].pages) > 0 {
				last = y
			}
		}
		if last == x {
			return false
		}
		b.preempt(last)
	}
	return true
}

// preempt takes the pages of a text, which waits until it can go on.
func (b *Batch) preempt(x *BatchText) {
	s := &b.slots[x.slot]
	x.rest, x.again = slices.Concat(s.seen, x.rest), true
	b.release(s)
	same := func(y *BatchText) bool { return x == y }
	b.prompts, b.texts = slices.DeleteFunc(b.prompts, same), slices.DeleteFunc(b.texts, same)
	at, _ := slices.BinarySearchFunc(b.waiting, x, func(y, x *BatchText) int { return cmp.Compare(y.number, x.number) })
	b.waiting = slices.Insert(b.waiting, at, x)
	b.pages.stats.Preempted++
}

// release takes the pages of a slot. What is in them stays in the tree.
func (b *Batch) release(s *batchSlot) {
	b.keep(s, len(s.seen)/b.pages.rows, len(s.seen))
	b.pages.dropAll(s.pages)
	s.seen, s.pages, s.pure = nil, nil, 0
}

// keep puts the pages of a slot with tokens from page i up to token end into the tree.
func (b *Batch) keep(s *batchSlot, i, end int) {
	for rows := b.pages.rows; i*rows < end; i++ {
		to := min((i+1)*rows, end)
		s.pages[i] = b.pages.add(s.pages, i, s.seen[i*rows:to], b.Alike && s.pure >= to)
	}
}

// sharePages takes the pages of the beginning of a prompt that another text has computed. Of the page in which they
// begin to differ it makes a copy.
func (b *Batch) sharePages(ctx context.Context, x *BatchText) error {
	s, p, t := &b.slots[x.slot], b.pages, &b.spec.Batch
	all := slices.Concat(s.seen, x.rest)
	whole, from, n := b.beginning(x, all)
	k := len(whole)*p.rows + n
	if k < len(s.seen)+b.leastShared() {
		return nil
	}
	for _, id := range whole {
		p.hold(id)
	}
	if n > 0 {
		p.hold(from) // so that nobody takes it
		id, ok := p.take()
		if ok {
			index := func(i int32) rlx.Tensor {
				return rlx.Tensor{DType: rlx.I32, Shape: []int{}, Data: tensor.Bytes([]int32{i})}
			}
			_, err := b.do().Run(ctx, rlx.Request{Method: t.Move, State: b.state,
				Inputs: map[string]rlx.Tensor{t.From: index(from), t.To: index(id)}, Outputs: []string{}})
			if err != nil {
				return err
			}
			whole = append(whole, id)
		} else {
			k -= n
		}
		p.drop(from)
	}
	if k < len(s.seen)+b.leastShared() {
		p.dropAll(whole)
		return nil
	}
	p.dropAll(s.pages)
	s.pages = whole
	if b.Alike {
		s.pure = k
	}
	x.reuse(k - len(s.seen))
	s.seen = append(s.seen, all[len(s.seen):k]...)
	return nil
}

// beginning returns the whole pages with which the tokens of a text begin, and another page with n more of the tokens.
// The last token is not among them, because the next one is chosen from it.
func (b *Batch) beginning(x *BatchText, all []int) (whole []int32, more int32, n int) {
	p := b.pages
	all = all[:len(all)-1]
	if b.Alike { // tokens that were chosen must not come from a prompt
		all = all[:min(len(all), x.result.Prompt)]
	}
	whole, more, n = p.find(all, b.Alike)
	if b.Alike {
		k := b.asPieces(len(whole)*p.rows+n, x.result.Prompt)
		if i := k / p.rows; i < len(whole) {
			whole, more = whole[:i], whole[i]
		}
		return whole, more, k % p.rows
	}
	for i := range b.slots { // the last page of a text in progress is not in the tree
		s, at := &b.slots[i], len(whole)
		if i == x.slot || len(s.pages) <= at || !slices.Equal(s.pages[:at], whole) {
			continue
		}
		if k := common(s.seen[at*p.rows:min(len(s.seen), (at+1)*p.rows)], all[at*p.rows:]); k > n {
			more, n = s.pages[at], k
		}
	}
	if n == p.rows { // a page that is not in the tree: it is copied up to its last row
		n--
	}
	return whole, more, n
}
