// Command mutants finds conditions of a package that its tests do not cover. It removes one condition at a time, runs the tests on each such
// mutant, and lists the mutants that pass.
//
//	go run ./bench/mutants -files 'verify_*.go' -run 'Bad|Task|Limit' ./format
//
// A mutant lacks one operand of the condition of an if. For "a || b" and for "a && b", one mutant has the condition a and another one b. A condition
// without operators becomes false. If a mutant passes, no test needs the condition, or another check makes it redundant.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// mutant is a file without one of its conditions.
type mutant struct {
	file, what string // what: "line 12: a > b"
	text       []byte
}

func main() {
	files := flag.String("files", "*.go", "`GLOB` of the files whose conditions are removed")
	run := flag.String("run", "", "`REGEXP` of the tests to run; all by default")
	sample := flag.Int("sample", 0, "test only `N` mutants, chosen at random but always the same; 0 for all")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "mutants: want one argument, the folder of a package")
		os.Exit(2)
	}
	if err := mutate(flag.Arg(0), *files, *run, *sample); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func mutate(dir, glob, run string, sample int) error {
	paths, err := filepath.Glob(filepath.Join(dir, glob))
	if err != nil {
		return err
	}
	var all []mutant
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		ms, err := mutantsOf(p)
		if err != nil {
			return err
		}
		all = append(all, ms...)
	}
	if len(all) == 0 {
		return fmt.Errorf("%s: the files that match %s have no conditions", dir, glob)
	}
	total := len(all)
	if sample > 0 && sample < total {
		rand.New(rand.NewPCG(1, 1)).Shuffle(total, func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:sample]
	}
	if out, err := test(dir, run, nil); err != nil {
		return fmt.Errorf("the tests fail without a mutant: %w\n%s", err, out)
	}
	begin, survived, invalid := time.Now(), 0, 0
	for _, m := range all {
		out, err := test(dir, run, &m)
		switch {
		case err == nil:
			survived++
			fmt.Printf("survived: %s %s\n", m.file, m.what)
		case strings.Contains(string(out), "[build failed]"), strings.Contains(string(out), "[setup failed]"):
			invalid++
		}
	}
	fmt.Printf("%d of %d mutants: %d detected, %d survived, %d do not compile; %.0f s\n", len(all), total, len(all)-survived-invalid, survived, invalid,
		time.Since(begin).Seconds())
	return nil
}

// test runs the tests with a mutant in place of its file.
func test(dir, run string, m *mutant) ([]byte, error) {
	args := []string{"test", "-count=1", "-short", "-timeout", "5m", "-run", run}
	if m != nil {
		tmp, err := os.MkdirTemp("", "mutants")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(tmp)
		file, err := filepath.Abs(m.file)
		if err != nil {
			return nil, err
		}
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: filepath.Join(tmp, "mutant.go")}})
		if err != nil {
			return nil, err
		}
		for name, b := range map[string][]byte{"mutant.go": m.text, "overlay.json": overlay} {
			if err := os.WriteFile(filepath.Join(tmp, name), b, 0o600); err != nil {
				return nil, err
			}
		}
		args = append(args, "-overlay", filepath.Join(tmp, "overlay.json"))
	}
	if !filepath.IsAbs(dir) {
		dir = "." + string(filepath.Separator) + dir
	}
	return exec.Command("go", append(args, dir)...).CombinedOutput()
}

// mutantsOf returns the mutants of a file.
func mutantsOf(path string) (out []mutant, err error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, src, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.IfStmt); ok {
			for _, c := range operands(s.Cond, "(false && ") {
				from, to := fset.Position(c.Pos()).Offset, fset.Position(c.End()).Offset
				old := string(src[from:to])
				text := string(src[:from]) + c.without + "(" + old + "))" + string(src[to:])
				out = append(out, mutant{path, fmt.Sprintf("line %d: %s", fset.Position(c.Pos()).Line, strings.Join(strings.Fields(old), " ")), []byte(text)})
			}
		}
		return true
	})
	return out, nil
}

// operand is an operand of a condition. The text without, inserted before it, removes its effect.
type operand struct {
	ast.Expr
	without string
}

// operands returns the operands of e. without is the text for e itself if it has no operands.
func operands(e ast.Expr, without string) []operand {
	b, ok := e.(*ast.BinaryExpr)
	switch {
	case ok && b.Op == token.LOR:
		return append(operands(b.X, "(false && "), operands(b.Y, "(false && ")...)
	case ok && b.Op == token.LAND:
		return append(operands(b.X, "(true || "), operands(b.Y, "(true || ")...)
	}
	return []operand{{e, without}}
}
