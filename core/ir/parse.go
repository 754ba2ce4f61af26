package ir

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Limits bound what ParseAll accepts. A graph beyond a limit is refused at the line that exceeds it. 0 means no limit.
type Limits struct {
	Graphs      int // without those that attributes refer to
	Bodies      int // these
	Nodes       int // of a graph; a body counts once for each attribute that refers to it
	Signature   int // inputs, or outputs, of a graph
	Operands    int // of a node
	AllOperands int // of a graph

	// Unknown, if not nil, finds the op of a node whose op is not registered. It makes the attributes from those in the
	// text and the types of the operands.
	Unknown func(op string) (def *OpDef, attrs func(given []Attr, in []Type) (any, error), err error)
}

// check returns an error if there are more than most.
func check(n, most int, what string) error {
	if most > 0 && n > most {
		return fmt.Errorf("has more than %d %s, the limit", most, what)
	}
	return nil
}

// Parse parses the text form that Graph.String returns. It skips blank lines and lines that begin with #. It infers the
// type of every node again and returns an error if the written type differs. Errors begin with the line number.
func Parse(text string) (*Graph, error) {
	f := file{lines: strings.Split(text, "\n"), graphs: map[string]*body{}}
	var last *body
	for begin := 0; begin < len(f.lines); {
		end := begin + 1
		for begun := f.has(begin, end); end < len(f.lines) && !(begun && f.begins(end)); end++ {
			begun = begun || f.has(end, end+1)
		}
		b, err := f.parse(begin, end)
		if err != nil {
			return nil, err
		}
		if end < len(f.lines) {
			if err := f.add(b); err != nil {
				return nil, err
			}
		}
		last, begin = b, end
	}
	if b := f.unused(); b != nil {
		return nil, fmt.Errorf("line %d: graph %s is neither the last nor a value of an attribute", b.line, b.g.Name)
	}
	return last.g, nil
}

// file is a text with several graphs.
type file struct {
	lines  []string
	limits Limits
	graphs map[string]*body // so far, by name
	list   []*body          // the same in order
}

// body is a graph that attributes of later ones may refer to.
type body struct {
	g     *Graph
	line  int // number of its first line
	depth int // see Graph.Nesting
	nodes int // counted as Limits.Nodes counts them
	used  bool
}

// begins reports whether line i (from 0) begins a graph.
func (f *file) begins(i int) bool { return strings.HasPrefix(strings.TrimSpace(f.lines[i]), "graph ") }

// has reports whether the lines [begin, end) are not all empty or comments.
func (f *file) has(begin, end int) bool {
	return slices.ContainsFunc(f.lines[begin:end], func(line string) bool {
		line = strings.TrimSpace(line)
		return line != "" && line[0] != '#'
	})
}

// add makes a graph known to those that follow.
func (f *file) add(b *body) error {
	name := b.g.Name
	switch {
	case name == "":
		return fmt.Errorf("line %d: another graph follows; want graph NAME here", b.line)
	case len(b.g.Outputs) == 0:
		return fmt.Errorf("line %d: graph %s returns nothing", b.line, name)
	case f.graphs[name] != nil:
		return fmt.Errorf("line %d: there is a graph %s already", b.line, name)
	}
	f.graphs[name] = b
	f.list = append(f.list, b)
	return nil
}

// unused returns the first graph that no attribute refers to, or nil.
func (f *file) unused() *body {
	for _, b := range f.list {
		if !b.used {
			return b
		}
	}
	return nil
}

// parse parses the lines [begin, end), which are one graph.
func (f *file) parse(begin, end int) (*body, error) {
	p := parser{g: &Graph{exact: true}, names: map[string]*Node{}, limits: f.limits, graphs: f.graphs}
	for i, line := range f.lines[begin:end] {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := p.line(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", begin+i+1, err)
		}
	}
	p.g.exact = false
	return &body{g: p.g, line: begin + 1, depth: p.depth, nodes: len(p.g.Nodes) + p.bodyNodes}, nil
}

// ParseAll parses several graphs. Each begins with a line "graph NAME", and the names must be distinct. It returns the
// graphs to which no attribute refers.
func ParseAll(text string, l Limits) (graphs []*Graph, err error) {
	f := file{lines: strings.Split(text, "\n"), limits: l, graphs: map[string]*body{}}
	begin := -1
	flush := func(end int) error {
		if begin < 0 {
			return nil
		}
		if l.Graphs > 0 && l.Bodies > 0 {
			if err := check(len(f.list)+1, l.Graphs+l.Bodies, "graphs"); err != nil {
				return fmt.Errorf("line %d: %w", begin+1, err)
			}
		}
		b, err := f.parse(begin, end)
		if err != nil {
			return err
		}
		return f.add(b)
	}
	for i, line := range f.lines {
		line = strings.TrimSpace(line)
		if f.begins(i) {
			if err := flush(i); err != nil {
				return nil, err
			}
			begin = i
		} else if begin < 0 && line != "" && line[0] != '#' {
			return nil, fmt.Errorf("line %d: %.40q; want graph NAME", i+1, line)
		}
	}
	if err := flush(len(f.lines)); err != nil {
		return nil, err
	}
	bodies := 0
	for _, b := range f.list {
		if b.used {
			bodies++
		} else {
			graphs = append(graphs, b.g)
		}
		if err := cmp.Or(check(len(graphs), l.Graphs, "graphs"),
			check(bodies, l.Bodies, "graphs that attributes refer to")); err != nil {
			return nil, fmt.Errorf("line %d: %w", b.line, err)
		}
	}
	if len(graphs) == 0 {
		return nil, fmt.Errorf("has no line \"graph NAME\"")
	}
	return graphs, nil
}
