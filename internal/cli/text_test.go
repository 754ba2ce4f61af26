package cli

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFileName(t *testing.T) {
	long := strings.Repeat("ä", 300)
	for text, want := range map[string]string{
		"encode": "encode", "image_encoder.blocks.3.mlp": "image_encoder.blocks.3.mlp", "%31": "_31", "größe": "größe",
		"../victim/m": "_._victim_m", "..": "_.", ".": "_", "": "_", "/etc/passwd": "_etc_passwd", `a\b:c`: "a_b_c",
		"a\x00b": "a_b", "\x1b[31m": "_[31m", "a b\n": "a_b_", "\xff": "_", "\u202egpj": "_gpj", "*?<>|\"'": "_______",
		long: strings.Repeat("ä", 40) + "-172956790b144592",
	} {
		if got := FileName(text); got != want {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
	}
	if FileName(long) == FileName(long+"x") {
		t.Error("two long names are one")
	}
}

func FuzzFileName(f *testing.F) {
	for _, s := range []string{"encode", "../x", ".hidden", strings.Repeat("é", 99), "\xc3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		name := FileName(s)
		if !filepath.IsLocal(name) || filepath.Base(name) != name || name[0] == '.' || len(name) > 100 ||
			!utf8.ValidString(name) || strings.ContainsAny(name, "/\\:%\x00\n\x1b") {
			t.Errorf("%q became %q", s, name)
		}
	})
}

// TestPrinter checks that the output does not depend on how text was split into writes, and contains no control
// characters.
func TestPrinter(t *testing.T) {
	const text, want = "a\tb\n\x1b[2Jé\u202e\u009b€\xff\xe2\x82 \U0001f600\r\n",
		"a\tb\n\uFFFD[2Jé\uFFFD\uFFFD€\uFFFD\uFFFD\uFFFD \U0001f600\uFFFD\n"
	for size := range 6 {
		var b strings.Builder
		p := &printer{w: &b}
		for rest := text; rest != ""; {
			n := min(size+1, len(rest))
			if k, err := io.WriteString(p, rest[:n]); k != n || err != nil {
				t.Fatal(k, err)
			}
			rest = rest[n:]
		}
		if b.String() != want {
			t.Errorf("writes of %d bytes: %q; want %q", size+1, b.String(), want)
		}
	}
	if n, err := (&printer{w: fullDisk{}}).Write([]byte("x")); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestForeignText checks that untrusted text in results, tables, notes and errors is made printable, and that JSON
// keeps it escaped.
func TestForeignText(t *testing.T) {
	const name = "x\x1b[31m\u009b\u202e\U000e0001.bin"
	status, out, errs := execute(t, "run", name)
	if status != 0 || strings.ContainsAny(out+errs, "\x1b\u009b\u202e\U000e0001") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
	var b, e strings.Builder
	env := &Env{Stdout: &printer{w: &b}, Stderr: &printer{w: &e}}
	if err := env.Table([][]string{{"NAME", "PATH"}, {name, "two\nlines\tand"}}); err != nil {
		t.Fatal(err)
	}
	env.Notef("note of %s\nand", name)
	const safe = "x\uFFFD[31m\uFFFD\uFFFD\uFFFD.bin"
	if want := "NAME           PATH\n" + safe + "  two lines and\n"; b.String() != want {
		t.Errorf("table %q; want %q", b.String(), want)
	}
	if want := "note of " + safe + " and\n"; e.String() != want {
		t.Errorf("note %q; want %q", e.String(), want)
	}
	b.Reset()
	if err := env.WriteJSON(name); err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back != name ||
		strings.ContainsAny(b.String(), "\x1b\u009b\u202e\U000e0001") {
		t.Errorf("JSON %q is %q, %v", b.String(), back, err)
	}
	b.Reset()
	if _, err := env.Binary().Write([]byte("\x89PNG\r\n")); err != nil || b.String() != "\x89PNG\r\n" {
		t.Errorf("binary %q, %v", b.String(), err)
	}
}
