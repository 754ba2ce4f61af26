package planpage

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/sched"
)

// TestOf checks the steps of a small graph: their cost, the values that they read, and the live ranges.
func TestOf(t *testing.T) {
	g, err := ir.Parse(`graph f
x = input : f32[4,8]
a = softmax x {axis=1} : f32[4,8]
c = reshape a : f32[32]
d = exp c : f32[32]
return y=d
`)
	if err != nil {
		t.Fatal(err)
	}
	p, want, err := sched.Build(g, sched.Options{Target: "t"})
	if err != nil {
		t.Fatal(err)
	}
	got := Of(p, "f for t", "f", func(op string) bool { return op == "exp" })
	if len(got.Steps) != 2 || got.Naive != want.Naive || got.Peak != want.Peak || got.Arena != p.ArenaSize {
		t.Fatalf("%+v; the planner says %v", got, want)
	}
	first, last := got.Steps[0], got.Steps[1]
	if last.Op != "exp" || !last.Reference || first.Reference || len(last.Reads) != 1 || last.Reads[0] != 0 ||
		len(first.Reads) != 0 || last.Bytes != 2*4*32 || first.FLOPs == 0 {
		t.Errorf("steps %+v", got.Steps)
	}
}

// TestWrite checks that the page is whole and that names cannot leave the data.
func TestWrite(t *testing.T) {
	var b strings.Builder
	p := &Program{Label: `</script><script>alert(1)</script>`, Method: "f", Steps: []Step{}, Spans: []Span{}}
	if err := Write(&b, "a&b.rlx", []*Program{p}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if strings.Count(page, "</script>") != 2 || strings.Contains(page, "alert(1)</script>") {
		t.Error("a name ends the script")
	}
	for _, part := range []string{"/*CSS*/", "/*JS*/", "/*DATA*/"} {
		if strings.Contains(page, part) {
			t.Errorf("%s is not filled in", part)
		}
	}
	_, data, _ := strings.Cut(page, `id="data">`)
	data, _, _ = strings.Cut(data, "</script>")
	var v struct {
		Title    string
		Programs []Program
	}
	if err := json.Unmarshal([]byte(data), &v); err != nil || v.Title != "a&b.rlx" || v.Programs[0].Label != p.Label {
		t.Errorf("%+v, %v", v, err)
	}
	if strings.Contains(page, "http://") || strings.Contains(page, "https://") {
		t.Error("the page names an address")
	}
}
