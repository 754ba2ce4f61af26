package text

import (
	"strings"

	"github.com/rlx-go/rlx/internal/tokenizer"
)

// A textStream turns tokens into text and finds stop texts. It holds back text that may begin a stop text.
type textStream struct {
	decode *tokenizer.Stream // nil if the model has no tokenizer
	stop   []string
	held   string
}

func newTextStream(t *Tokenizer, stop []string) *textStream {
	s := &textStream{}
	if t != nil {
		s.decode = t.t.Stream(true)
	}
	for _, x := range stop {
		if x != "" {
			s.stop = append(s.stop, x)
		}
	}
	return s
}

// next returns the text that a token adds. found reports a stop text; the returned text ends before it.
func (s *textStream) next(id int) (text string, found bool) {
	if s.decode == nil {
		return "", false
	}
	return s.add(s.decode.Next(id))
}

func (s *textStream) add(more string) (text string, found bool) {
	all := s.held + more
	s.held = ""
	first := len(all)
	for _, x := range s.stop {
		if i := strings.Index(all, x); i >= 0 && i < first {
			first, found = i, true
		}
	}
	if found {
		return all[:first], true
	}
	keep := 0
	for _, x := range s.stop {
		for n := min(len(x)-1, len(all)); n > keep; n-- {
			if strings.HasSuffix(all, x[:n]) {
				keep = n
				break
			}
		}
	}
	s.held = all[len(all)-keep:]
	return all[:len(all)-keep], false
}

// flush returns the text that was held back.
func (s *textStream) flush() string {
	if s.decode == nil {
		return ""
	}
	text, found := s.add(s.decode.Flush())
	if !found {
		text += s.held
	}
	s.held, s.decode = "", nil
	return text
}
