package text

import (
	"container/list"
	"slices"
)

// pages are the pages of a state that the texts of a Batch share. A page has the keys and values of some tokens that
// follow one another. Pages that texts have filled form a tree: the tokens of a page and of all pages above it are the
// beginning of a text. A new text takes the pages of its beginning in place of computing them. Pages that no text has
// stay in the tree until another text needs their place; those unused for the longest time go first.
//
// Page 0 belongs to no text. Rows that nobody reads are written to it.
type pages struct {
	rows   int // of a page
	all    []page
	free   []int32
	root   *pageNode
	unused *list.List // of the pageNodes whose pages no text has, in order of last use, children before their parents
	stats  PageStats
}

type page struct {
	texts int       // that have it
	node  *pageNode // of the tree, or nil
}

// A pageNode is a page in the tree.
type pageNode struct {
	page     int32
	tokens   []int         // fewer than the rows of a page at the end of a text: then it has no children
	pure     bool          // prompts have brought all its tokens; see batchSlot.pure
	unused   *list.Element // in pages.unused, or nil
	parent   *pageNode
	children []*pageNode
}

// PageStats are numbers about the pages of a Batch.
type PageStats struct {
	Pages     int // that texts may have
	Used      int // that texts have
	Shared    int // of these, pages that several texts have
	Kept      int // that no text has, but whose tokens are kept
	Evicted   int // times that kept tokens were dropped, because a text needed the page
	Preempted int // times that a text gave up its pages to one that had begun before it
}

func newPages(count, rows int) *pages {
	p := &pages{rows: rows, all: make([]page, count), root: &pageNode{}, unused: list.New()}
	for i := count - 1; i > 0; i-- {
		p.free = append(p.free, int32(i))
	}
	p.stats.Pages = count - 1
	return p
}

// take returns a page for a text. ok is false if texts have all.
func (p *pages) take() (id int32, ok bool) {
	if len(p.free) == 0 && !p.evict() {
		return 0, false
	}
	id = p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.hold(id)
	return id, true
}

// hold gives a page to a text.
func (p *pages) hold(id int32) {
	x := &p.all[id]
	switch x.texts++; x.texts {
	case 1:
		p.stats.Used++
		if x.node != nil {
			p.stats.Kept--
			p.unused.Remove(x.node.unused)
			x.node.unused = nil
		}
	case 2:
		p.stats.Shared++
	}
}

// dropAll takes all pages from a text. The last one goes first, so that in unused a page follows those below it.
func (p *pages) dropAll(ids []int32) {
	for _, id := range slices.Backward(ids) {
		p.drop(id)
	}
}

// drop takes a page from a text that has no page of the tree below it.
func (p *pages) drop(id int32) {
	x := &p.all[id]
	switch x.texts--; x.texts {
	case 0:
		p.stats.Used--
		if x.node == nil {
			p.free = append(p.free, id)
		} else {
			p.stats.Kept++
			x.node.unused = p.unused.PushBack(x.node)
		}
	case 1:
		p.stats.Shared--
	}
}

// evict frees the page that has been unused for the longest time.
func (p *pages) evict() bool {
	front := p.unused.Front()
	if front == nil {
		return false
	}
	oldest := p.unused.Remove(front).(*pageNode)
	siblings := &oldest.parent.children
	*siblings = slices.DeleteFunc(*siblings, func(n *pageNode) bool { return n == oldest })
	p.all[oldest.page].node = nil
	p.free = append(p.free, oldest.page)
	p.stats.Kept--
	p.stats.Evicted++
	return true
}

// available returns the number of pages that take would return. A text has the pages above each of its pages, so all
// pages that no text has can be evicted.
func (p *pages) available() int { return len(p.free) + p.stats.Kept }

// find returns the whole pages with which tokens begin, and another page with n more of the tokens, if n > 0. pure
// restricts it to pure pages.
func (p *pages) find(tokens []int, pure bool) (whole []int32, more int32, n int) {
	for at := p.root; ; {
		var next *pageNode
		n = 0
		for _, c := range at.children {
			if k := common(c.tokens, tokens); k > n && (c.pure || !pure) {
				next, n = c, k
			}
		}
		if next == nil {
			return whole, 0, 0
		}
		if n < p.rows {
			return whole, next.page, n
		}
		whole, tokens, at = append(whole, next.page), tokens[n:], next
	}
}

// add puts page i of a text, whose pages are list, into the tree. tokens are those in it, at most a whole page. If the
// tree has a page with the same tokens, the text takes that one in place of its own, and add returns it.
func (p *pages) add(list []int32, i int, tokens []int, pure bool) int32 {
	id, parent := list[i], p.root
	if i > 0 {
		parent = p.all[list[i-1]].node
	}
	if p.all[id].node != nil || parent == nil || len(parent.tokens) < p.rows && parent != p.root || len(tokens) == 0 {
		return id
	}
	for _, c := range parent.children {
		if len(c.tokens) >= len(tokens) && common(c.tokens, tokens) == len(tokens) && (c.pure || !pure) {
			if len(tokens) == p.rows && c.pure == pure {
				p.hold(c.page)
				p.drop(id)
				return c.page
			}
			if len(tokens) < p.rows {
				if c.unused != nil {
					p.unused.MoveToBack(c.unused)
				}
				return id
			}
		}
	}
	n := &pageNode{page: id, tokens: slices.Clone(tokens), pure: pure, parent: parent}
	parent.children = append(parent.children, n)
	p.all[id].node = n
	return id
}

// reset forgets all tokens. No text may have a page.
func (p *pages) reset() {
	stats := p.stats
	*p = *newPages(len(p.all), p.rows)
	p.stats.Evicted, p.stats.Preempted = stats.Evicted, stats.Preempted
}

// common returns the number of tokens with which both lists begin.
func common(a, b []int) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
