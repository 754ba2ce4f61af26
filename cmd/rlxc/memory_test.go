package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMemory checks that sizes in a small text are refused before anything of that size is allocated or written.
func TestMemory(t *testing.T) {
	t.Chdir(t.TempDir())
	chain := "a0 = iota {axis=0} : f32[4000000]\n"
	for i := range 40 {
		chain += fmt.Sprintf("a%d = sin a%d : f32[4000000]\n", i+1, i)
	}
	chain += "s40 = neg a40 : f32[4000000]\n"
	for i := 39; i >= 0; i-- { // values are dropped after their last use, so all are used at the end
		chain += fmt.Sprintf("s%d = add s%d, a%d : f32[4000000]\n", i, i+1, i)
	}
	several := ""
	for i := range 40 {
		several += fmt.Sprintf(
			"a%[1]d = iota {axis=0} : f32[4000000]\nc%[1]d = const {value=%[1]d} : f32[]\nb%[1]d = add a%[1]d, c%[1]d : f32[4000000]\n"+
				"x%[1]d = input : f32[4000000]\ny%[1]d = add x%[1]d, b%[1]d : f32[4000000]\n", i)
	}
	returns := ""
	for i := range 40 {
		returns += fmt.Sprintf(",y%d", i)
	}
	inputs := ""
	for i := range 1025 {
		inputs += fmt.Sprintf("i%d = input : f32[1]\n", i)
	}
	for _, c := range []struct{ name, text, flags, want string }{
		{"narrow of a huge param",
			"p = param : f32[8000000000]\ny = narrow p {axis=0, start=5, len=3} : f32[3]\nx = exp y : f32[3]\nreturn y=x",
			"--memory 1G", "RLX8001"},
		{"a huge param", "p = param : f32[1099511627776]\ny = neg p : f32[1099511627776]\nreturn y=y", "", "RLX8002"},
		{"a chain of constants", chain + "return y=s0", "--memory 300M", "constant folding"},
		{"many constants", several + "return " + returns[1:], "--memory 300M", "--memory allows 300 MB (RLX8001"},
		{"a long text", strings.Repeat("# comment\n", 100000) + "x = input : f32[1]\nreturn y=x", "--memory 10M",
			"graphs 32.0 MB); --memory allows 10.0 MB"},
		{"inputs", inputs + "return y=i0", "", "line 1026: i1024: has more than 1024 inputs, the limit"},
		{"size", "x = input : f32[1]\nreturn y=x", "--memory x", "is not a size"},
	} {
		if err := os.WriteFile("g.txt", []byte("graph f\n"+c.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		p := commandLine()
		args := append([]string{"compile", "g.txt", "-o", "x.rlx", "--target", "cpu"}, strings.Fields(c.flags)...)
		if status := p.Exec(t.Context(), args, strings.NewReader(""), &out, &errs); status == 0 ||
			!strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: status %d: %.500s; want %s", c.name, status, errs.String(), c.want)
		}
		if left, _ := filepath.Glob("*.rlx"); len(left) > 0 {
			t.Errorf("%s: %v was written", c.name, left)
		}
	}
}
