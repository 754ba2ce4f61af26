package grammar

import (
	"strings"
	"testing"
)

// bytesOnly is a vocabulary with a token for each byte.
func bytesOnly() *Vocabulary {
	return NewVocabulary(256, func(id int, _ bool) []byte { return []byte{byte(id)} })
}

// fits reports whether a text matches the grammar, and how many of its bytes fit.
func fits(t *testing.T, g *Grammar, text string) (whole bool, n int) {
	t.Helper()
	m, err := NewEngine(g, bytesOnly()).Begin()
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(text) {
		ok, err := m.Accept(int(text[i]))
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return false, i
		}
	}
	may, _ := m.Ends()
	return may, len(text)
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		source  string
		yes, no string // texts, separated by |
	}{
		{`root ::= "yes" | "no"`, "yes|no", "|y|yess|maybe"},
		{"root ::= a b # comment\n# another\na ::= \"x\"*\nb ::= [0-9]+\n", "x1|xx22|7", "x|1x|xa"},
		{`root ::= "a"{2,3} "b"{2} "c"{1,} "d"?`, "aabbc|aaabbccd", "abbc|aaaabbc|aabc|aabb"},
		{`root ::= [^a-c\]] .`, "dx|d\u00e9|\u00e9\n|\u20ac\U0001F600", "ax|]x|d|dxx"},
		{`root ::= "(" root ")" | "."`, ".|(.)|(((.)))", "(.|().|()"},
		{"root ::= (\n \"a\" |\n \"b\" # c\n)+ \"\\n\"\n", "a\n|bab\n", "a|\n"},
		{"root ::= \"a\" |\n  \"b\"", "a|b", "ab"},
		{`root ::= "\x41\u00e9\U0001F600\t\"\\"`, "A\u00e9\U0001F600\t\"\\", "A"},
		{`root ::= ("a" | "b" "c")* "d"{0}`, "|a|bc|abcbca", "b|d"},
		{`root ::= ("a"?)* | (("b"+)+)+`, "|aaa|b|bbb", "ab"},
		{`root ::= x root | x` + "\nx ::= [a-z\\-]", "a|a-b", "|A"},
		{`root ::= "a" root "b" | ""`, "|ab|aaabbb", "a|aab|abb"},
		{`root ::= [Ͱ-Ͽ𐀀-𐏿]+`, "λ|λπ|𐀀𐏿", "a|é"},
		{`root ::= "a" | dead` + "\ndead ::= \"b\" dead", "a", "b"},
		{`root ::= "abc" | "abd" | "ab" | "x"`, "abc|abd|ab|x", "a|abe|xx"},
		{`root-1 ::= "a"` + "\n" + `root ::= root-1 root_2` + "\r\n" + `root_2 ::= "b"`, "ab", "a"},
		{`root ::= ""`, "", "a"},
		{"root ::= [a-] [\\]\\^]", "a]|-^", "b]"},
	} {
		g, err := Parse(c.source)
		if err != nil {
			t.Errorf("%s: %v", c.source, err)
			continue
		}
		for _, s := range strings.Split(c.yes, "|") {
			if ok, n := fits(t, g, s); !ok {
				t.Errorf("%s: %q does not fit at byte %d", c.source, s, n)
			}
		}
		for _, s := range strings.Split(c.no, "|") {
			if ok, _ := fits(t, g, s); ok {
				t.Errorf("%s: %q fits", c.source, s)
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	for source, want := range map[string]string{
		"":                                      `has no rule "root"`,
		`a ::= "b"`:                             `has no rule "root"`,
		"root ::= a\n":                          `line 1, column 10: the rule "a" is not defined`,
		"root ::= \"a\"\nroot ::= \"b\"":        `line 2, column 1: the rule "root" is defined twice, first at line 1, column 1`,
		"root = \"a\"":                          `line 1, column 6: '=' after the name of a rule; want ::=`,
		"root ::= \"a":                          `line 1, column 10: the literal does not end on its line`,
		"root ::= [a":                           `line 1, column 10: the class does not end on its line`,
		"root ::= [b-a]":                        `the range b-a of a class is empty`,
		"root ::= (\"a\"":                       `line 1, column 14: the end; want ) at the end of a group`,
		"root ::= \"a\")":                       `line 1, column 13: ')'; want`,
		"root ::= \"a\"{":                       `want a number`,
		"root ::= \"a\"{2":                      `want } at the end of a repetition`,
		"root ::= \"a\"{3,2}":                   `at least 3 times and at most 2`,
		"root ::= \"a\"{99999}":                 `99999 times; allowed are 16384`,
		`root ::= "\q"`:                         `line 1, column 11: an unknown escape`,
		`root ::= "\x4"`:                        `want 2 hexadecimal digits`,
		`root ::= "\ud800"`:                     `want 4 hexadecimal digits of a character`,
		"root ::= <think>":                      `line 1, column 10: tokens in < > are not supported`,
		"root ::= root \"a\" | \"b\"":           `line 1, column 1: the rule "root" begins with itself (left recursion)`,
		"root ::= a\na ::= \"x\"? root | \"y\"": `begins with itself`,
		"root ::= \"a\" root":                   `line 1, column 1: the rule "root": no finite text fits`,
		"root ::= [^\\x00-\\U0010FFFF]":         `no finite text fits`,
		"root ::= \xff":                         `is not UTF-8`,
		"!":                                     `line 1, column 1: '!'; want the name of a rule`,
		"root ::= (((\"ab\"{999}){999}){999})":  "",
		"root ::= " + strings.Repeat("(", 600):  `nested more than`,
	} {
		g, err := Parse(source)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", source, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", source, g != nil, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("root ::= \"a\"{2,3} [^b-c] (x | .)* # c\nx ::= \"\\n\"? root", []byte("aab"))
	f.Fuzz(func(t *testing.T, source string, text []byte) {
		g, err := Parse(source)
		if err != nil {
			return
		}
		e := NewEngine(g, bytesOnly())
		m, err := e.Begin()
		for i := 0; err == nil && i < len(text) && i < 50; i++ {
			var mask []uint64
			if mask, err = m.Mask(); err != nil {
				return
			}
			allowed := mask[text[i]>>6]>>(text[i]&63)&1 == 1
			ok, err := m.Accept(int(text[i]))
			if err == nil && ok != allowed {
				t.Fatalf("byte %d, %q: the mask says %v, and the matcher %v", i, text[i], allowed, ok)
			}
			if !ok {
				return
			}
		}
	})
}
