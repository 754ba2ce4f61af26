package cli

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/release"
)

// explainCommand explains error codes.
func explainCommand(p *Program) *Command {
	return &Command{
		Name: "explain", Args: "[CODE]", Short: "explain an error code, or list them all",
		Examples: []Example{{"what an error means and what to do", p.Name + " explain RLX3001"}},
		Complete: completeCodes,
		Setup: func(*FlagSet) Run {
			return func(_ context.Context, env *Env, args []string) error { return explain(env, args) }
		},
	}
}

// explanation is an entry with its exit status, for JSON.
type explanation struct {
	Code  string `json:"code"`
	Exit  int    `json:"exit"`
	Title string `json:"title"`
	Text  string `json:"text"`
}

func explanationOf(e diag.Entry) explanation {
	return explanation{string(e.Code), e.Code.Exit(), e.Title, e.Text}
}

func explain(env *Env, args []string) error {
	if len(args) > 1 {
		return Usagef("explain", "takes one code; found %d", len(args))
	}
	if len(args) == 1 {
		code := diag.Code(strings.ToUpper(args[0]))
		if len(code) == 4 { // 4033 means RLX4033
			code = "RLX" + code
		}
		e, ok := diag.Lookup(code)
		if !ok {
			return Usagef(args[0], "not a code that %s reports; without one, `%s explain` lists them all", env.Program,
				env.Program).
				WithHint("a backend may send codes of its own")
		}
		if env.JSON {
			return env.WriteJSON(explanationOf(e))
		}
		fmt.Fprintf(env.Stdout, "%s: %s (exit status %d)\n\n%s\n", string(e.Code), e.Title, e.Code.Exit(), e.Text)
		return nil
	}
	if env.JSON {
		list := []explanation{}
		for _, e := range diag.Entries() {
			list = append(list, explanationOf(e))
		}
		return env.WriteJSON(list)
	}
	rows := [][]string{{"CODE", "EXIT", "MEANING"}}
	for _, e := range diag.Entries() {
		rows = append(rows, []string{string(e.Code), fmt.Sprint(e.Code.Exit()), e.Title})
	}
	return env.Table(rows)
}

// versionCommand prints the versions of this executable.
func versionCommand(p *Program) *Command {
	return &Command{
		Name: "version", Short: "print the version",
		Setup: func(*FlagSet) Run {
			return func(_ context.Context, env *Env, args []string) error {
				if len(args) > 0 {
					return Usagef("version", "takes no arguments; found %q", args[0])
				}
				return p.printVersion(env)
			}
		},
	}
}

func (p *Program) printVersion(env *Env) error {
	build := release.Own()
	if env.JSON {
		parts := append([]Version{}, p.Versions...)
		return env.WriteJSON(map[string]any{"program": p.Name, "version": build.Version, "commit": build.Commit,
			"date": build.Date, "modified": build.Modified, "go": runtime.Version(), "os": runtime.GOOS,
			"arch": runtime.GOARCH, "parts": parts})
	}
	fmt.Fprintf(env.Stdout, "%s %s %s/%s %s\n", p.Name, build, runtime.GOOS, runtime.GOARCH, runtime.Version())
	for _, v := range p.Versions {
		fmt.Fprintf(env.Stdout, "%s %s\n", v.Name, v.Version)
	}
	return nil
}
