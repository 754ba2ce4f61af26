package text

import (
	"errors"
	"testing"

	"github.com/rlx-go/rlx/task"
)

// TestCheckPrompt checks ids against the vocabulary and the context, which a model with a sliding window does not
// limit.
func TestCheckPrompt(t *testing.T) {
	s := (*spec)(task.NewText(17, 24, 5, 6))
	long := make([]int, 25)
	for _, c := range []struct {
		ids  []int
		seen int
		want error
	}{
		{[]int{0, 16}, 0, nil}, {[]int{17}, 0, ErrPrompt}, {[]int{-1}, 0, ErrPrompt}, {nil, 0, ErrPrompt},
		{nil, 1, nil}, {long, 0, ErrContext},
		{long[1:], 0, nil}, {long[1:], 1, ErrContext},
	} {
		if err := s.checkPrompt(c.ids, c.seen); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%v after %d: %v; want %v", c.ids, c.seen, err, c.want)
		}
		if c.seen > 0 {
			continue
		}
		if err := s.facts().CheckPrompt(c.ids); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%v: %v; want %v", c.ids, err, c.want)
		}
	}
	s.Slide = task.TextSlide{Method: "slide", First: "first", Dropped: "dropped", Keep: 7}
	if err := s.checkPrompt(long, 1000); err != nil {
		t.Error(err)
	}
}
