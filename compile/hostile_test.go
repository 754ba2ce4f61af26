package compile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/compile"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// chain returns n graphs, b0 to b(n-1), each of which runs the one before it twice.
func chain(n int) string {
	text := "graph b0\nv = input : f32[4]\nw = add v, v : f32[4]\nreturn w=w\n\n"
	for i := 1; i < n; i++ {
		text += fmt.Sprintf("graph b%d\nv = input : f32[4]\nu = scan v {body=@b%d, length=2} : f32[4]\n"+
			"w = scan u {body=@b%[2]d, length=2} : f32[4]\nreturn w=w\n\n", i, i-1)
	}
	return text
}

// scan returns a graph with a scan over body, which is defined in the texts before.
func scan(attrs, result string) string {
	return "graph f\nx = input : f32[4]\ny = scan x {" + attrs + "} : " + result + "\nreturn y=y\n"
}

// TestHostileBodies compiles graphs with bodies that are too deep, refer to themselves or to what they do not have, or
// run too often. Each gives an error that says so, at once.
func TestHostileBodies(t *testing.T) {
	const cond = "graph c\nv = input : f32[4]\nk = reduce_sum v {axes=[0]} : f32[]\nz = const {value=0.0} : f32[]\n" +
		"p = gt k, z : bool[]\nreturn p=p\n\n"
	body := func(lines string) string { return "graph b\nv = input : f32[4]\n" + lines + "\nreturn w=w\n\n" }
	for _, c := range []struct {
		name, text string
		want       diag.Code
		says       string
	}{
		{"deep", chain(200) + scan("body=@b199, length=2", "f32[4]"), code.GraphText,
			"nests graphs 17 deep; at most 16"},
		{"a value of the outer graph", body("w = add v, x : f32[4]") + scan("body=@b, length=2", "f32[4]"),
			code.GraphText, `unknown operand "x"`},
		{"itself", body("w = scan v {body=@b, length=2} : f32[4]") + scan("body=@b, length=2", "f32[4]"),
			code.GraphText, `no graph "b" before`},
		{"a later graph", scan("body=@b0, length=2", "f32[4]") + "\n" + chain(1), code.GraphText,
			`no graph "b0" before`},
		{"10^9 iterations", chain(1) + scan("body=@b0, length=1000000000", "f32[4]"), code.GraphText,
			"the loop has 1000000000 iterations"},
		{"10^9 results", chain(1) + scan("body=@b0, length=1000000000, trajectory=true", "f32[1000000000,4]"),
			code.GraphText, "the loop has 1000000000 iterations"},
		{"10^9 tests", chain(1) + cond + "graph f\nx = input : f32[4]\n" +
			"y = while x {body=@b0, cond=@c, max_iterations=1000000000} : f32[4]\nreturn y=y\n", code.GraphText,
			"the loop has 1000000000 iterations"},
		{"nested products", chain(3) + scan("body=@b2, length=100000", "f32[4]"), code.GraphText, "iterations"},
		{"below none", chain(1) + scan("body=@b0, length=-1", "f32[4]"), code.GraphText, "length is -1"},
		{"beyond integers", chain(1) + scan("body=@b0, length=99999999999999999999", "f32[4]"), code.GraphText,
			"want int"},
		{"another type", body("w = concat v, v : f32[8]") + scan("body=@b, length=2", "f32[8]"), code.GraphText,
			"the types of the carried values"},
		{"a state", body("s = state : f32[4]\nw = add v, s : f32[4]") + scan("body=@b, length=2", "f32[4]"),
			code.GraphText, "not allowed in a graph that an attribute refers to"},
		{"a rank", "graph f\nx = input : f32[" + strings.Repeat("1,", 99999) + "1]\nreturn y=x\n", code.GraphText,
			"rank 100000; at most"},
	} {
		err := compileText(t, c.text, "", "portable") // cpu and wgpu run loops of any length
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %.300v; want %v with %q", c.name, err, c.want, c.says)
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("%s: an error of %d bytes", c.name, len(err.Error()))
		}
	}
}

// TestHostileDefinitions compiles a model with definitions of ops that are recursive, huge or contradictory.
func TestHostileDefinitions(t *testing.T) {
	const in, out = "graph expansion\nx = input : f32[4]\n", "\nreturn y=y\n\n"
	const neg = in + "y = neg x : f32[4]" + out
	pattern := func(line string) string { return "graph pattern\nx = input : f32[4]\n" + line + out }
	var many strings.Builder
	for i := range 300 {
		fmt.Fprintf(&many, "y%d = neg x : f32[4]\n", i)
	}
	for _, c := range []struct{ name, text, says string }{
		{"itself", "op acme.a\n" + in + "y = acme.a x : f32[4]" + out, `unknown op "acme.a"`},
		{"each other", "op acme.a\n" + in + "y = acme.b x : f32[4]" + out +
			"op acme.b\n" + in + "y = acme.a x : f32[4]" + out,
			`unknown op "acme.b"`},
		{"a pattern of itself", "op acme.a\n" + neg + pattern("y = acme.a x : f32[4]"), `unknown op "acme.a"`},
		{"another pattern", "op acme.a\n" + neg + pattern("y = exp x : f32[4]"), "is not what the op means"},
		{"many nodes", "op acme.a\n" + in + many.String() + "return y=y299\n", "256"},
		{"many bytes", "op acme.a\n" + strings.Repeat("# comment\n", 1<<20), "at most 4194304"},
		{"a name of ours", "op neg\n" + neg, "want a name with a dot"},
		{"control characters", "op acme.a\x1b[31m\x00\n" + neg, `\x1b[31m\x00`},
		{"twice", "op acme.a\n" + neg + "op acme.a\n" + neg, "defined twice"},
		{"many attributes", "op acme.a\n" + strings.Repeat("attr a = 1\n", 1000) + neg, "attribute"},
		{"many patterns", "op acme.a\n" + neg + strings.Repeat(pattern("y = neg x : f32[4]"), 100),
			"more than 16 patterns"},
		{"nothing but an input", "op acme.a\nreplaces expansion\n" + in + "return y=x\n", "returns an input"},
		{"a range without numbers", "op acme.a\nrange x 1e999 nan\n" + neg, "want range INPUT LEAST MOST"},
		{"nothing", "", "defines no op"},
		{"a rank", "op acme.a\n" + strings.ReplaceAll(neg, "[4]", "["+strings.Repeat("1,", 99999)+"1]"), "rank 100000"},
	} {
		err := compileText(t, "graph f\nx = input : f32[4]\ny = neg x : f32[4]\nreturn y=y\n", c.text+" ", "cpu")
		if !errors.Is(err, code.OpFile) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %.300v; want %v with %q", c.name, err, code.OpFile, c.says)
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("%s: an error of %d bytes", c.name, len(err.Error()))
		}
	}
}

// compileText compiles graphs in text form, with definitions of ops unless ops is empty.
func compileText(t *testing.T, text, ops, target string) error {
	path := filepath.Join(t.TempDir(), "graphs.txt")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	o := compile.Options{Output: path + ".rlx", Targets: []string{target}}
	if ops != "" {
		file := path + ".rlxop"
		if err := os.WriteFile(file, []byte(ops), 0o644); err != nil {
			t.Fatal(err)
		}
		o.Ops = []string{file}
	}
	_, err := compile.Checkpoint(t.Context(), path, o)
	return err
}
