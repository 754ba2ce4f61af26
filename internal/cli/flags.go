package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rlx-go/rlx/core/diag"
)

// FlagSet has the flags of one command, in groups for --help.
type FlagSet struct {
	*pflag.FlagSet
	groups []flagGroup
}

// flagGroup is a header and the index of its first flag.
type flagGroup struct {
	title string
	first int
}

// Group starts a group: the flags declared next appear under this title.
func (fs *FlagSet) Group(title string) {
	fs.groups = append(fs.groups, flagGroup{title, fs.count()})
}

func (fs *FlagSet) count() int {
	n := 0
	fs.VisitAll(func(*pflag.Flag) { n++ })
	return n
}

// sharedFlags are the flags that every command has.
type sharedFlags struct {
	format               string
	json, quiet, verbose bool
}

// declare declares them on the root command.
func (s *sharedFlags) declare(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.StringVar(&s.format, "format", "text", "`text|json|jsonl` format of results and errors; jsonl is for texts, with a line of JSON for each token")
	fs.BoolVar(&s.json, "json", false, "short for --format json")
	fs.BoolVarP(&s.quiet, "quiet", "q", false, "no progress and no closing line on stderr")
	fs.BoolVarP(&s.verbose, "verbose", "v", false,
		"print more: after a run what ran it and in how much memory, with an error all that is known")
	fs.BoolP("help", "h", false, "show this text")
}

// check refuses invalid combinations of shared flags. lines tells that the command may print JSON line by line.
func (s *sharedFlags) check(fs *pflag.FlagSet, lines bool) error {
	switch {
	case s.format == "jsonl" && !lines:
		return Usagef("--format", "jsonl is only for commands that generate text, such as run").WithHint("use json")
	case s.format != "text" && s.format != "json" && s.format != "jsonl":
		allowed := "text and json"
		if lines {
			allowed = "text, json and jsonl"
		}
		return Usagef("--format", "%q is not a format; allowed are %s", s.format, allowed)
	case s.json && s.format == "text" && fs.Changed("format"):
		return Usagef("--json", "cannot be combined with --format text")
	}
	return nil
}

// parseError returns an error of pflag in our wording.
func parseError(fs *pflag.FlagSet, err error) error {
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if s := unknown.GetSpecifiedShortnames(); s != "" {
			return Usagef("-"+name, "no such flag")
		}
		e := Usagef("--"+name, "no such flag")
		if near := Nearest(name, flagNames(fs)); near != "" {
			e.WithHint("did you mean --%s?", near)
		}
		return e
	case errors.As(err, &value):
		cause := value.Unwrap()
		if d, ok := errors.AsType[*diag.Error](cause); ok {
			return d
		}
		return Usagef(strings.TrimSpace("--"+value.GetFlag().Name+" "+value.GetValue()), "is not %s",
			wanted(value.GetFlag(), cause))
	case errors.As(err, &missing):
		return Usagef("--"+missing.GetFlag().Name, "its value is missing: %s", usageOf(missing.GetFlag()))
	}
	return Usagef("", "%w", err)
}

// wanted describes the expected value, unless the flag's own error does so already.
func wanted(f *pflag.Flag, cause error) string {
	switch f.Value.Type() {
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number from 0 to 18446744073709551615"
	case "duration":
		return "a time such as 90s or 5m"
	}
	return cause.Error()
}

func usageOf(f *pflag.Flag) string {
	name, usage := pflag.UnquoteUsage(shown(f))
	return fmt.Sprintf("--%s %s: %s", f.Name, name, usage)
}

func flagNames(fs *pflag.FlagSet) []string {
	var out []string
	fs.VisitAll(func(f *pflag.Flag) { out = append(out, f.Name) })
	return out
}

// shown returns the flag as help texts show it. If a usage text starts with a word in backquotes, that word is the name
// of the value. pflag alone would repeat the word in the text.
func shown(f *pflag.Flag) *pflag.Flag {
	c := *f
	if c.DefValue == "0s" || c.DefValue == "[]" {
		c.DefValue = "" // a zero duration or an empty list means no value, and the usage text says so
	}
	if rest, ok := strings.CutPrefix(f.Usage, "`"); ok {
		name, text, _ := strings.Cut(rest, "`")
		c.Usage, c.Value = strings.TrimLeft(text, " :,"), named{f.Value, name}
	}
	return &c
}

// named is a value whose type is shown as name in help texts.
type named struct {
	pflag.Value
	name string
}

func (n named) Type() string { return n.name }

// help returns the text of all groups.
func (fs *FlagSet) help() string {
	var all []*pflag.Flag
	fs.VisitAll(func(f *pflag.Flag) { all = append(all, f) })
	groups := fs.groups
	if len(groups) == 0 || groups[0].first > 0 {
		groups = append([]flagGroup{{"Flags", 0}}, groups...)
	}
	var b strings.Builder
	for i, g := range groups {
		end := len(all)
		if i+1 < len(groups) {
			end = groups[i+1].first
		}
		if g.first == end {
			continue
		}
		part := pflag.NewFlagSet("", pflag.ContinueOnError)
		part.SortFlags = false
		for _, f := range all[g.first:end] {
			part.AddFlag(shown(f))
		}
		fmt.Fprintf(&b, "\n%s:\n%s", g.title, part.FlagUsagesWrapped(helpWidth))
	}
	return b.String()
}

// Nearest returns the known word that a misspelt word probably means, or "" if none is similar.
func Nearest(word string, known []string) string {
	var longer []string // known words that word abbreviates
	for _, k := range known {
		if len(word) > 2 && strings.HasPrefix(k, word) {
			longer = append(longer, k)
		}
	}
	if len(longer) == 1 {
		return longer[0]
	}
	best, bestDist := "", 1+len(word)/3
	for _, k := range known {
		if d := editDistance(word, k); d <= bestDist && (best == "" || d < bestDist) {
			best, bestDist = k, d
		}
	}
	return best
}

// editDistance returns the number of insertions, deletions and substitutions between two words (Wagner and Fischer
// 1974).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			subst := diag
			if a[i] != b[j] {
				subst++
			}
			diag = row[j+1]
			row[j+1] = min(subst, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// List is a flag that may be given several times. It keeps each value unchanged, including commas.
type List struct {
	Values   []string
	typeName string
}

// Set appends a value.
func (l *List) Set(v string) error { l.Values = append(l.Values, v); return nil }

// String joins the values.
func (l *List) String() string { return strings.Join(l.Values, " ") }

// Type returns the name of the value for help texts.
func (l *List) Type() string { return l.typeName }

// ListVarP declares a List with a long name and, unless short is empty, a short one.
func (fs *FlagSet) ListVarP(l *List, name, short, usage string) {
	fs.VarP(l, name, short, usage)
}

// Choice is a flag with a fixed set of values.
type Choice struct {
	Value   string
	allowed []string
}

// ChoiceVar declares a Choice. The first allowed value is the default.
func (fs *FlagSet) ChoiceVar(c *Choice, name, usage string, allowed ...string) {
	*c = Choice{allowed[0], allowed}
	values := strings.Join(allowed, "|")
	if len(values) > helpWidth/3 { // the column would leave too little room for the texts
		values, usage = "NAME", usage+": "+strings.Join(allowed, ", ")
	}
	fs.Var(c, name, "`"+values+"` "+usage)
}

// Set accepts only an allowed value.
func (c *Choice) Set(v string) error {
	if !slices.Contains(c.allowed, v) {
		return fmt.Errorf("known; allowed are %s", strings.Join(c.allowed, ", "))
	}
	c.Value = v
	return nil
}

func (c *Choice) String() string { return c.Value }

// Type names the kind of flag.
func (c *Choice) Type() string { return "choice" }
