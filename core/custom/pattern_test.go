package custom_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/custom"
	"github.com/rlx-go/rlx/core/ir"
)

// patterns have a commutative op, attributes that are found, an element type, a size, several results.
const patterns = `op acme.scaled
attr alpha = 0.5
attr t = f32
replaces expansion

graph expansion
sym N = 0..1048576
x = input : $t[N]
y = input : $t[N]
a = const {value=$alpha} : $t[]
s = sin x : $t[N]
p = mul s, a : $t[N]
z = add p, y : $t[N]
return z=z

op acme.best
attr k = 1
replaces expansion

graph expansion
sym N = 1..64
sym M = 16..64
x = input : f32[N,M]
e = exp x : f32[N,M]
v, i = top_k e {k=$k} : f32[N,$k], i32[N,$k]
l = log v : f32[N,$k]
return l=l, i=i

op acme.rows
attr k = 2
graph expansion
sym N = 1..64
x = input : f32[N]
r = reshape x : f32[1,N]
n = neg r : f32[1,N]
p = neg n : f32[1,N]
e = expand p : f32[$k,N]
return e=e

graph pattern
sym N = 1..64
x = input : f32[N]
r = reshape x : f32[1,N]
e = expand r : f32[$k,N]
return e=e
`

func TestMatch(t *testing.T) {
	l := &custom.Library{}
	if err := l.Parse("patterns", patterns); err != nil {
		t.Fatal(err)
	}
	list, err := l.Patterns()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ about, graph, want string }{
		{"other order of operands, another attribute, a symbol", `sym B = 1..9
x = input : f32[2*B]
y = input : f32[2*B]
a = const {value=3} : f32[]
s = sin x : f32[2*B]
p = mul a, s : f32[2*B]
z = add y, p : f32[2*B]
return z=z`, "acme.scaled(x,y)->(z) alpha=3.0 t=f32"},
		{"both orders fit one operand; only one fits the rest", `x = input : f32[4]
s = sin x : f32[4]
a = const {value=2} : f32[]
p = mul s, a : f32[4]
q = mul s, s : f32[4]
z = add q, p : f32[4]
return z=z`, "acme.scaled(x,q)->(z) alpha=2.0 t=f32 MultiConsumer"},
		{"half floats", `x = input : f16[4]
y = input : f16[4]
s = sin x : f16[4]
a = const {value=2} : f16[]
p = mul s, a : f16[4]
z = add p, y : f16[4]
return z=z`, "acme.scaled(x,y)->(z) alpha=2.0 t=f16"},
		{"the constant is shared", `x = input : f32[4]
s = sin x : f32[4]
a = const {value=2} : f32[]
p = mul s, a : f32[4]
z = add p, x : f32[4]
b = mul x, a : f32[4]
return z=z, b=b`, "acme.scaled(x,x)->(z) alpha=2.0 t=f32"},
		{"an inner value is an output", `x = input : f32[4]
s = sin x : f32[4]
a = const {value=2} : f32[]
p = mul s, a : f32[4]
z = add p, x : f32[4]
return z=z, s=s`, "acme.scaled(x,x)->(z) alpha=2.0 t=f32 MultiConsumer"},
		{"an inner value is read elsewhere", `x = input : f32[4]
s = sin x : f32[4]
a = const {value=2} : f32[]
p = mul s, a : f32[4]
z = add p, x : f32[4]
b = neg p : f32[4]
return z=z, b=b`, "acme.scaled(x,x)->(z) alpha=2.0 t=f32 MultiConsumer"},
		{"a constant of another shape", `x = input : f32[4]
s = sin x : f32[4]
a = const {value=2} : f32[1]
p = mul s, a : f32[4]
z = add p, x : f32[4]
return z=z`, ""},
		{"an operand that is broadcast", `x = input : f32[4]
y = input : f32[1]
s = sin x : f32[4]
a = const {value=2} : f32[]
p = mul s, a : f32[4]
z = add p, y : f32[4]
return z=z`, ""},
		{"several results, one of which is found from another", `x = input : f32[3,20]
e = exp x : f32[3,20]
v, i = top_k e {k=5} : f32[3,5], i32[3,5]
l = log v : f32[3,5]
return l=l, i=i`, "acme.best(x)->(l,i) k=5"},
		{"a size beyond the symbol's range", `x = input : f32[3,65]
e = exp x : f32[3,65]
v, i = top_k e {k=5} : f32[3,5], i32[3,5]
l = log v : f32[3,5]
return l=l, i=i`, ""},
		{"the values of top_k are an output, too", `x = input : f32[3,20]
e = exp x : f32[3,20]
v, i = top_k e {k=5} : f32[3,5], i32[3,5]
l = log v : f32[3,5]
return l=l, i=i, v=v`, "acme.best(x)->(l,i) k=5 MultiConsumer"},
		{"an attribute that is a size of the result", `x = input : f32[7]
r = reshape x : f32[1,7]
e = expand r : f32[2,7]
return e=e`, "acme.rows(x)->(e) k=2"},
		{"another one, which no attribute of a node shows", `x = input : f32[7]
r = reshape x : f32[1,7]
e = expand r : f32[3,7]
return e=e`, ""},
	} {
		g := parse(t, nil, c.graph+"\n")
		var got []string
		for _, p := range list {
			u := custom.NewUses(g)
			for _, n := range g.Nodes {
				if m := p.Match(u, n); m != nil {
					got = append(got, describe(p, m))
				}
			}
		}
		if s := strings.Join(got, "; "); s != c.want {
			t.Errorf("%s: found %q; want %q", c.about, s, c.want)
		}
	}
}

func describe(p *custom.Pattern, m *custom.Match) string {
	labels := func(nodes []*ir.Node) string {
		var s []string
		for _, n := range nodes {
			s = append(s, n.Label())
		}
		return strings.Join(s, ",")
	}
	s := fmt.Sprintf("%s(%s)->(%s)", p.Name, labels(m.In), labels(m.Outputs))
	for _, a := range m.Own {
		s += " " + a.Name + "=" + a.Text()
	}
	if m.Miss != "" {
		s += " " + m.Miss
	}
	return s
}

// FuzzParse checks that no text makes the parser, or the search for the patterns that it defines, panic.
func FuzzParse(f *testing.F) {
	f.Add(patterns)
	for _, name := range []string{"wave.rlxop", "knn.rlxop", "gate.rlxop"} {
		f.Add(read(f, name))
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := &custom.Library{}
		err := l.Parse("f", text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f: ") {
				t.Errorf("%q: the error does not name the file: %v", text, err)
			}
			return
		}
		list, err := l.Patterns()
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for _, d := range l.Definitions() {
			if _, err := d.Cases(); err != nil {
				t.Errorf("%q: %v", text, err)
			}
			a, err := d.Attrs(nil, nil)
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			u := custom.NewUses(a.Expansion)
			for _, p := range list {
				for _, n := range a.Expansion.Nodes {
					p.Match(u, n)
				}
			}
		}
	})
}
