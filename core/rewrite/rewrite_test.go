package rewrite_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/op"
	rw "github.com/rlx-go/rlx/core/rewrite"
)

func parse(t *testing.T, text string) *ir.Graph {
	t.Helper()
	g, err := ir.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// negNeg removes a double negation if the inner one has no other use.
var negNeg = rw.Rule{Name: "neg-neg", Match: rw.Op(op.NegDef, rw.Once(rw.Op(op.NegDef, rw.Any("x")))),
	To: func(c *rw.Context) *ir.Node { return c.New("x") }}

func run(t *testing.T, text string, rules ...rw.Rule) (string, []rw.Event) {
	t.Helper()
	g, events, err := rw.Apply(parse(t, text), rules, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Verify(); err != nil {
		t.Fatal(err)
	}
	return g.String(), events
}

func TestChainNeedsSeveralSweeps(t *testing.T) {
	got, events := run(t, `x = input : f32[2]
a = neg x : f32[2]
b = neg a : f32[2]
c = neg b : f32[2]
d = neg c : f32[2]
e = neg d : f32[2]
return y=e`, negNeg)
	if strings.Count(got, "= neg") != 1 || len(events) < 2 {
		t.Errorf("%s%v", got, events)
	}
}

// TestOnceCountsOutputs checks that a rule with Once does not fire if the inner node is an output, and that the miss is
// reported.
func TestOnceCountsOutputs(t *testing.T) {
	const text = "x = input : f32[2]\na = neg x : f32[2]\nb = neg a : f32[2]\nreturn y=b, a=a\n"
	got, events := run(t, text, negNeg)
	if got != text || !slices.Equal(events, []rw.Event{{"neg-neg", "b", rw.MultiConsumer}}) {
		t.Errorf("%s%v", got, events)
	}
}

func TestCommutativeAndSameCapture(t *testing.T) {
	rule := rw.Rule{Name: "r", Match: rw.Op(op.AddDef, rw.Op(op.NegDef, rw.Any("x")), rw.Any("x")),
		To: func(c *rw.Context) *ir.Node { return op.Sub(c.New("x"), c.New("x")) }}
	const head = "x = input : f32[2]\nz = input : f32[2]\nn = neg x : f32[2]\n"
	for line, want := range map[string]string{"add n, x": "sub x, x", "add x, n": "sub x, x", "add n, z": "add n, z",
		"add z, n": "add z, n"} {
		got, _ := run(t, head+"y = "+line+" : f32[2]\nreturn y=y", rule)
		if !strings.Contains(got, "y = "+want) {
			t.Errorf("%s:\n%s", line, got)
		}
	}
}

// TestAlternativesForgetCaptures checks that the captures of a failed alternative do not bind the next one.
func TestAlternativesForgetCaptures(t *testing.T) {
	rule := rw.Rule{Name: "r", Match: rw.OneOf(
		rw.Op(op.SubDef, rw.Any("x"), rw.Op(op.NegDef)),
		rw.Op(op.SubDef, rw.As("y", rw.Op(op.NegDef)), rw.Any("x"))),
		To: func(c *rw.Context) *ir.Node { return op.Add(c.New("y"), c.New("x")) }}
	got, _ := run(t, "x = input : f32[2]\na = neg x : f32[2]\nb = sub a, x : f32[2]\nreturn y=b", rule)
	if !strings.Contains(got, "b = add a, x") {
		t.Error(got)
	}
}

func TestBugsAreReported(t *testing.T) {
	flip := rw.Rule{Name: "flip", Match: rw.Op(op.AddDef, rw.Any("a"), rw.Any("b")),
		To: func(c *rw.Context) *ir.Node { return op.Add(c.New("b"), c.New("a")) }}
	wrong := rw.Rule{Name: "wrong", Match: rw.Op(op.AddDef, rw.Any("a"), rw.Any("b")),
		To: func(c *rw.Context) *ir.Node { return c.New("b") }}
	const text = "x = input : f32[2]\nz = input : f32[]\ny = add x, z : f32[2]\nreturn y=y"
	for _, c := range []struct {
		rule rw.Rule
		want string
	}{{flip, "does not end"}, {wrong, "rule wrong makes f32[]"}} {
		if _, _, err := rw.Apply(parse(t, text), []rw.Rule{c.rule}, nil); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v; want %q", err, c.want)
		}
	}
}

// TestOtherOrderWithoutMiss checks that Op tries the second operand if the first matches but has another use.
func TestOtherOrderWithoutMiss(t *testing.T) {
	rule := rw.Rule{Name: "r", Match: rw.Op(op.AddDef, rw.Once(rw.Op(op.NegDef, rw.Any("x"))), rw.Any("y")),
		To: func(c *rw.Context) *ir.Node { return op.Sub(c.New("y"), c.New("x")) }}
	got, events := run(
		t, "x = input : f32[2]\na = neg x : f32[2]\nb = neg a : f32[2]\nc = add a, b : f32[2]\nreturn y=c", rule)
	if !strings.Contains(got, "c = sub a, a") || len(events) != 1 {
		t.Errorf("%s%v", got, events)
	}
}

// TestResult checks that a pattern distinguishes the results of an op and can match the op's operands through them.
// Readers of results that are not rewritten must keep them.
func TestResult(t *testing.T) {
	part := func(k int) rw.Rule {
		return rw.Rule{Name: fmt.Sprint("part", k),
			Match: rw.Result(k, rw.Op(op.SplitDef, rw.As("c", rw.Op(op.ConcatDef)))),
			To: func(c *rw.Context) *ir.Node {
				if x := c.Node("c").In[k]; x.Type.Equal(c.Root().Type) {
					return c.Map(x)
				}
				return nil
			}}
	}
	const text = `x = input : f32[2]
y = input : f32[3]
c = concat x, y : f32[5]
a, b = split c {sizes=[2,3]} : f32[2], f32[3]
p, %8 = split c {sizes=[1,4]} : f32[1], f32[4]
n = neg a : f32[2]
m = neg b : f32[3]
`
	for _, c := range []struct {
		rules []rw.Rule
		ret   string
		want  string
	}{
		{[]rw.Rule{part(0), part(1)}, "n, m",
			"x = input : f32[2]\ny = input : f32[3]\nn = neg x : f32[2]\nm = neg y : f32[3]\nreturn n=n, m=m\n"},
		{[]rw.Rule{part(1)}, "n, m", "x = input : f32[2]\ny = input : f32[3]\nc = concat x, y : f32[5]\n" +
			"a, %5 = split c {sizes=[2,3]} : f32[2], f32[3]\nn = neg a : f32[2]\nm = neg y : f32[3]\nreturn n=n, m=m\n"},
		{[]rw.Rule{part(0), part(1)}, "p", "x = input : f32[2]\ny = input : f32[3]\nc = concat x, y : f32[5]\n" +
			"p, %5 = split c {sizes=[1,4]} : f32[1], f32[4]\nreturn p=p\n"},
	} {
		if got, _ := run(t, text+"return "+c.ret, c.rules...); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.ret, got, c.want)
		}
	}
}
