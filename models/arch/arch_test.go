package arch_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/models/arch"
)

// names is a checkpoint of scalars.
type names []string

func (n names) Names() []string { return n }
func (n names) Type(name string) (ir.Type, bool) {
	for _, x := range n {
		if x == name {
			return ir.TypeOf(dtype.F32), true
		}
	}
	return ir.Type{}, false
}

// family registers a family that recognises a checkpoint by one tensor.
func family(name, landmark string) struct{} {
	return arch.Register(
		arch.Architecture{Name: name, Title: "test " + name, Recognise: func(c arch.Checkpoint) arch.Evidence {
			if _, ok := c.Type(landmark); !ok {
				return arch.Evidence{Missing: []string{landmark}}
			}
			e := arch.Evidence{Found: []string{landmark}}
			if _, ok := c.Type("lone " + landmark); ok {
				e.Usual = []string{"leaf"}
			}
			return e
		}})
}

var (
	_ = family("apple", "core")
	_ = family("pear", "stem")
)

func TestFind(t *testing.T) {
	for _, c := range []struct {
		arch  string
		ckpt  names
		kind  string // model_type
		found string
		code  diag.Code
		text  string
	}{
		{"auto", names{"core"}, "", "apple", "", ""},
		{"auto", names{"stem", "x"}, "", "pear", "", ""},
		{"auto", names{"stem"}, "apple", "pear", "", ""},               // a model_type cannot replace Missing
		{"pear", names{"core"}, "", "pear", "", ""},                    // a name overrides the evidence
		{"auto", names{"core", "lone core"}, "apple", "apple", "", ""}, // a model_type stands for what is usual
		{"auto", names{"core", "lone core"}, "pear", "", arch.ErrUnknown,
			"among 2 tensors; the likeliest is apple (test apple), missing leaf, or a config.json that says model_type " +
				"apple; if it is one of these, rerun with: rlxc file.safetensors --arch apple -o OUT.rlx"},
		{"auto", names{"x"}, "", "", arch.ErrUnknown,
			"among 1 tensors; none, such as x, is evidence for a family; known are apple, pear; "},
		{"auto", names{"core", "stem"}, "", "", arch.ErrUnknown, "among 2 tensors; it may be apple or pear; "},
		{"auto", names{"core", "stem"}, "", "", arch.ErrUnknown, "--arch NAME"},
		{"plum", names{"core"}, "", "", diag.Usage, "known are auto, apple, pear"},
	} {
		a, err := arch.Find(c.arch, c.ckpt, "file.safetensors", c.kind)
		if c.code == "" && (err != nil || a.Name != c.found) {
			t.Errorf("%s of %v: %s, %v; want %s", c.arch, c.ckpt, a.Name, err, c.found)
		}
		if c.code != "" && (!errors.Is(err, c.code) || !strings.Contains(err.Error(), c.text)) {
			t.Errorf("%s of %v: %v; want %s with %q", c.arch, c.ckpt, err, c.code, c.text)
		}
	}
	_, err := arch.Find("auto", names{"stem", "lone stem"}, "file.safetensors", "")
	want := []string{"tensors: stem, lone stem",
		"pear (test pear): found stem; missing leaf, or a config.json that says model_type pear", "apple (test apple): found nothing; missing core"}
	if e, ok := err.(*diag.Error); !ok || !slices.Equal(e.More, want) {
		t.Errorf("%v has more: %q; want %q, the likeliest first", err, e.More, want)
	}
}

func TestConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(
		path, []byte(`{"model_type":"m","a":{"n":3,"eps":1e-5,"s":"x","big":1e30,"half":2.5,"null":null},"list":[1]}`),
		0o644); err != nil {
		t.Fatal(err)
	}
	var c arch.Config
	if err := c.Load(path); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"": "it is empty", "null": "it is null", "{": "unexpected",
		"[1]": "the value is an array; want an object"} {
		if err := new(arch.Config).Decode([]byte(text), "x.json"); !errors.Is(err, arch.ErrConfig) ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	known := map[string]string{"a.n": "a number", "a.eps": "another"}
	for _, bad := range []string{"a.n", "a.n=", "b.n=3"} {
		if err := c.Set(bad, known); !errors.Is(err, diag.Usage) {
			t.Errorf("--set %s: %v; want a usage error", bad, err)
		}
	}
	if n, ok, err := c.Int("a.n", 1, 9); n != 3 || !ok || err != nil || c.Origin("a.n") != path {
		t.Errorf("a.n is %d %v %v from %s", n, ok, err, c.Origin("a.n"))
	}
	if f := c.Fact("n", "a.n", 3); f.Value != "3 ("+filepath.Base(path)+")" {
		t.Errorf("fact %+v; want the name of the file without its folder", f)
	}
	if err := c.Set("a.n=4", known); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := c.Int("a.n", 1, 9); n != 4 || c.Origin("a.n") != "--set" {
		t.Errorf("a.n is %d from %s; --set overrides the file", n, c.Origin("a.n"))
	}
	if f, ok, err := c.Float("a.eps"); f != 1e-5 || !ok || err != nil {
		t.Errorf("a.eps is %v %v %v", f, ok, err)
	}
	for _, key := range []string{"a.null", "absent"} {
		if _, ok, err := c.Int(key, 0, 9); ok || err != nil {
			t.Errorf("%s: %v %v; want absent", key, ok, err)
		}
	}
	for _, key := range []string{"a.s", "a.big", "a.half", "list"} {
		if _, _, err := c.Int(key, 0, 9); !errors.Is(err, arch.ErrConfig) {
			t.Errorf("%s as an integer: %v; want a configuration error", key, err)
		}
	}
	if _, _, err := c.Int("a.n", 5, 9); !errors.Is(err, arch.ErrConfig) {
		t.Error("4 passes for 5 to 9")
	}
	if err := c.Agree("a.n", 5); !errors.Is(err, arch.ErrConfig) {
		t.Error("4 agrees with 5")
	}
	if err := c.Agree("a.n", 4); err != nil {
		t.Error(err)
	}
}

func TestBadConfigFiles(t *testing.T) {
	dir := t.TempDir()
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	wide := `{"` + strings.Repeat("a", 1<<20) + `":{"b":1,"c":2}}`
	for name, text := range map[string]string{"list": "[1]", "empty": "", "cut": `{"a":`, "text": "hello", "deep": deep,
		"wide": wide} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		var c arch.Config
		if err := c.Load(path); !errors.Is(err, arch.ErrConfig) {
			t.Errorf("%s: %v; want a configuration error", name, err)
		}
	}
	large := filepath.Join(dir, "large")
	if err := errors.Join(os.WriteFile(large, nil, 0o644), os.Truncate(large, 4<<20+1)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "absent"), large, dir, os.DevNull} {
		var c arch.Config
		if err := c.Load(path); !errors.Is(err, arch.ErrConfig) {
			t.Errorf("%s: %v; want a configuration error", path, err)
		}
	}
}
