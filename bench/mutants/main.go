// Command mutants finds conditions of a package that its tests do not cover. It removes one condition at a time, runs
// the tests on each such mutant, and lists the mutants that pass.
//
//	go run ./bench/mutants -files 'verify_*.go' -run 'Bad|Task|Limit' ./format
//
// All mutants are in one test binary, which reads from the environment which of them to be, so there is one build.
//
// A mutant lacks one operand of the condition of an if or of a case of a switch without a value. For "a || b" and for
// "a && b", one mutant has the condition a and another one b. A condition without operators becomes false. If a mutant
// passes, no test needs the condition, or another check makes it redundant.
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
	"regexp"
	"slices"
	"strings"
	"time"
)

// mutant is a condition that can be removed.
type mutant struct {
	file, what string // what: "line 12: a > b"
	from, to   int    // its bytes in the file
	without    string // the operator that removes it: "&&" makes it false, "||" makes it true
}

// envMutant names the variable with the number of the mutant that the test binary is.
const envMutant = "RLX_MUTANT"

func main() {
	files := flag.String("files", "*.go", "`GLOB` of the files whose conditions are removed")
	run := flag.String("run", "", "`REGEXP` of the tests to run; all by default")
	sample := flag.Int("sample", 0, "test only `N` mutants, chosen at random but always the same; 0 for all")
	only := flag.String(
		"only", "",
		"test only the mutants whose description, such as \"format/verify.go line 12: a > b\", matches `REGEXP`")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "mutants: want one argument, the folder of a package")
		os.Exit(2)
	}
	if err := mutate(flag.Arg(0), *files, *run, *only, *sample); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func mutate(dir, glob, run, only string, sample int) error {
	want, err := regexp.Compile(only)
	if err != nil {
		return err
	}
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
	all = slices.DeleteFunc(all, func(m mutant) bool { return !want.MatchString(m.file + " " + m.what) })
	if len(all) == 0 {
		return fmt.Errorf("%s: the files that match %s have no conditions that match %q", dir, glob, only)
	}
	total := len(all)
	if sample > 0 && sample < total {
		rand.New(rand.NewPCG(1, 1)).Shuffle(total, func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:sample]
	}
	tmp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	binary := filepath.Join(tmp, "mutants.test")
	if err := build(dir, tmp, binary, all); err != nil {
		return err
	}
	if out, err := test(dir, binary, run, -1); err != nil {
		return fmt.Errorf("the tests fail without a mutant: %w\n%s", err, out)
	}
	begin, survived := time.Now(), 0
	for i, m := range all {
		if _, err := test(dir, binary, run, i); err == nil {
			survived++
			fmt.Printf("survived: %s %s\n", m.file, m.what)
		}
	}
	fmt.Printf("%d of %d mutants: %d detected, %d survived; %.0f s\n", len(all), total, len(all)-survived, survived,
		time.Since(begin).Seconds())
	return nil
}

// build compiles the tests of dir with all mutants.
func build(dir, tmp, binary string, all []mutant) error {
	replace := map[string]string{}
	add := func(name string, text []byte) error {
		path, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		replace[path] = filepath.Join(tmp, filepath.Base(name))
		return os.WriteFile(replace[path], text, 0o600)
	}
	edits := map[string][]insertion{}
	for i, m := range all {
		test := map[string]string{"&&": "!=", "||": "=="}[m.without]
		edits[m.file] = append(
			edits[m.file], insertion{m.from, fmt.Sprintf("(mutantNumber %s %d %s (", test, i, m.without)},
			insertion{m.to, "))"})
	}
	for file, list := range edits {
		src, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		slices.SortStableFunc(list, func(a, b insertion) int { return b.at - a.at })
		for _, e := range list {
			src = slices.Insert(src, e.at, []byte(e.text)...)
		}
		if err := add(file, src); err != nil {
			return err
		}
	}
	pkg, err := exec.Command("go", "list", "-f", "{{.Name}}", "./"+dir).Output()
	if err != nil {
		return err
	}
	if err := add(filepath.Join(dir, "mutant_number.go"), fmt.Appendf(nil, numberText, pkg, envMutant)); err != nil {
		return err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tmp, "overlay.json"), overlay, 0o600); err != nil {
		return err
	}
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-o", binary, "-overlay",
		filepath.Join(tmp, "overlay.json"), "./"+dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// insertion is a text to insert before the byte at a position.
type insertion struct {
	at   int
	text string
}

const numberText = `package %s

import (
	"os"
	"strconv"
)

var mutantNumber = func() int {
	n, err := strconv.Atoi(os.Getenv(%q))
	if err != nil {
		return -1
	}
	return n
}()
`

// test runs the tests as mutant number i.
func test(dir, binary, run string, i int) ([]byte, error) {
	cmd := exec.Command(binary, "-test.short", "-test.failfast", "-test.timeout=5m", "-test.run="+run)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), fmt.Sprintf("%s=%d", envMutant, i))
	return cmd.CombinedOutput()
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
	add := func(kind string, cond ast.Expr) {
		for _, c := range operands(cond, "&&") {
			from, to := fset.Position(c.Pos()).Offset, fset.Position(c.End()).Offset
			what := strings.Join(strings.Fields(string(src[from:to])), " ")
			out = append(
				out, mutant{path, fmt.Sprintf("line %d: %s%s", fset.Position(c.Pos()).Line, kind, what), from, to,
					c.without})
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			add("", n.Cond)
		case *ast.SwitchStmt:
			for _, clause := range n.Body.List {
				for _, cond := range clause.(*ast.CaseClause).List {
					if n.Tag == nil {
						add("case ", cond)
					}
				}
			}
		}
		return true
	})
	return out, nil
}

// operand is an operand of a condition, and the operator that removes its effect.
type operand struct {
	ast.Expr
	without string
}

// operands returns the operands of e. If e has no operands, without replaces e itself.
func operands(e ast.Expr, without string) []operand {
	b, ok := e.(*ast.BinaryExpr)
	switch {
	case ok && b.Op == token.LOR:
		return append(operands(b.X, "&&"), operands(b.Y, "&&")...)
	case ok && b.Op == token.LAND:
		return append(operands(b.X, "||"), operands(b.Y, "||")...)
	}
	return []operand{{e, without}}
}
