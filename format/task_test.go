package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/task"
	"github.com/rlx-go/rlx/task/tasktest"
)

// echo is a task with fields of every type. It is registered under a name that sorts before "kind" and one that sorts
// after it. Adding a kind of task takes only code like this.
type echo struct {
	kind   string
	Method string   `json:"method"`
	Input  string   `json:"input"`
	Loud   bool     `json:"loud"`
	Limit  int      `json:"limit"`
	Start  int32    `json:"start"`
	Gain   float64  `json:"gain"`
	Table  []byte   `json:"table"`
	Stops  []int    `json:"stops"`
	Words  []string `json:"words"`
	Range  struct {
		Bounds [2]float64 `json:"bounds"`
	} `json:"range"`
}

var (
	_ = task.Register("echo", func() task.Task { return &echo{kind: "echo"} })
	_ = task.Register("mirror", func() task.Task { return &echo{kind: "mirror"} })
)

func (x *echo) Kind() string { return x.kind }

func (x *echo) Fields() []task.Field {
	return []task.Field{
		{Key: "gain", Value: &x.Gain}, {Key: "input", Value: &x.Input}, {Key: "limit", Value: &x.Limit},
		{Key: "loud", Value: &x.Loud},
		{Key: "method", Value: &x.Method},
		{Key: "range", Value: []task.Field{{Key: "bounds", Value: x.Range.Bounds[:]}}},
		{Key: "start", Value: &x.Start}, {Key: "stops", Value: &x.Stops, Max: 3},
		{Key: "table", Value: &x.Table, Max: 1 << 16},
		{Key: "words", Value: &x.Words},
	}
}

func (x *echo) Validate() error {
	if x.Limit < 1 {
		return diag.New(code.TaskSpec, "task "+x.kind, "limit is %d", x.Limit)
	}
	return nil
}

func (x *echo) Check(m task.Methods) error {
	f, err := m.Taking(x.Method, x.Input)
	if err != nil {
		return err
	}
	_, err = f.Input(x.Input, dtype.F32, task.Shape{task.Exactly(1), task.Exactly(3), task.AnySize, task.AnySize})
	return err
}

func (x *echo) CheckInput(string, string, tensor.Tensor) error { return nil }

func (x *echo) String() string { return fmt.Sprintf("sounds of up to %d", x.Limit) }

// anEcho returns a task that fits the test artifact.
func anEcho(t *testing.T, kind string) *echo {
	t.Helper()
	x := tasktest.Full(t, kind).(*echo)
	x.Method, x.Input = "image", "pixels"
	return x
}

// TestTask checks that all fields of a task are written and read again, for names of kinds that sort before and after
// "kind".
func TestTask(t *testing.T) {
	for _, kind := range []string{"echo", "mirror"} {
		tasktest.Fields(t, kind)
		want := anEcho(t, kind)
		want.Table = bytes.Repeat([]byte{7}, 1<<16)
		a, weights := testArtifact(t)
		a.Meta.Task = want
		path := filepath.Join(t.TempDir(), "a.rlx")
		if _, err := Write(t.Context(), path, a, weights); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		v, err := Open(path, Policy{})
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if got := v.Meta().Task; !reflect.DeepEqual(got, want) {
			t.Errorf("%+v came back as %+v", want, got)
		}
		v.Close()
	}
	full := tasktest.Full(t, task.KindSegment).(*task.Segment)
	some, none := *full, *full
	some.BatchMethod, some.MaskSide = "", 0
	none.BatchMethod, none.MaxPrompts, none.MaskInput, none.MaskSide = "", 0, "", 0
	words, drawn := tinymodel.TextTask(), tinymodel.TextTask()
	drawn.Outputs.Greedy, drawn.Outputs.GreedyLogProb = "", ""
	// fields added in a later version are omitted if empty
	for _, want := range []task.Task{full, &some, &none, words, drawn} {
		d := newDecoder("META", encoded(func(e *encoder) { encodeTasks(e, want) }))
		if back := decodeTasks(d); d.err != nil || !reflect.DeepEqual(back, want) {
			t.Errorf("%+v (%v); want %+v", back, d.err, want)
		}
	}
	for text, edit := range map[string]func([]byte) []byte{
		`field "mask_side" is present but has no value`: func(b []byte) []byte {
			return bytes.Replace(b, append([]byte("\xa9mask_side"), byte(full.MaskSide)), []byte("\xa9mask_side\x00"),
				1)
		},
		"task has 19 fields; want 20 to 26": func(b []byte) []byte {
			return bytes.Replace(b, []byte("segment\xde\x00\x1a"), []byte("segment\xde\x00\x13"), 1)
		},
		`field "mask_sidE"; want`: func(b []byte) []byte {
			return bytes.Replace(b, []byte("mask_side"), []byte("mask_sidE"), 1)
		},
	} {
		d := newDecoder("META", edit(encoded(func(e *encoder) { encodeTasks(e, full) })))
		if decodeTasks(d); d.err == nil || !strings.Contains(d.err.Error(), text) {
			t.Errorf("%v; want %s", d.err, text)
		}
	}
}

// TestBadTask checks unknown kinds, unknown fields, fields beyond their limits, invalid numbers, and methods that do
// not fit the task.
func TestBadTask(t *testing.T) {
	const early, late = "\xa4kind\xa4echo", "\xa4kind\xa6mirror"
	for name, c := range map[string]struct {
		kind     string
		change   func(*echo)
		from, to string // replaced in META
		code     error
		text     string
	}{
		"an unknown kind": {kind: "mirror", from: late, to: "\xa4kind\xa6mirroR", code: code.Verifier(15),
			text: `task "mirroR"; this version knows "echo", "mirror", "patches", "segment", "segment_concepts", ` +
				`"splats", "text"`},
		"an unknown kind before kind": {kind: "echo", from: "\xa4echo\x8a", to: "\xa4echO\x8a",
			code: code.Verifier(15),
			text: `task "echO"; this version knows "echo", "mirror", "patches", "segment", "segment_concepts", ` +
				`"splats", "text"`},
		"fields under another name": {kind: "mirror", from: "\xa6mirror\x8a", to: "\xa6mirroR\x8a",
			code: code.Verifier(15), text: `field "mirroR"; want "mirror"`},
		"another kind than its fields": {kind: "echo", from: early, to: "\xa4kind\xa4echO", code: code.Verifier(15),
			text: `kind "echO" of a task "echo"`},
		"fields of another kind": {kind: "mirror", from: late + "\xa6mirror",
			to: "\xa4kind\xa7segment\xa7segment", code: code.Verifier(15), text: "task has 10 fields"},
		"a kind without a name": {kind: "mirror", from: late, to: "\xa4kind\xa0", code: code.Verifier(15),
			text: `task ""`},
		"a field of another type": {kind: "echo", from: "\xa4loud\xc3", to: "\xa4loud\x01",
			code: code.Verifier(15), text: "loud is an integer"},
		"a list that is too long": {kind: "echo", change: func(x *echo) { x.Stops = make([]int, 4) },
			code: code.Verifier(15), text: "stops has 4 items; at most 3"},
		"a table that is too long": {kind: "echo", change: func(x *echo) { x.Table = make([]byte, 1<<16+1) },
			code: code.Verifier(15), text: "table has 65537 bytes"},
		"a word that is too long": {kind: "echo", change: func(x *echo) { x.Words[1] = strings.Repeat("x", 513) },
			code: code.Verifier(15), text: "words has 513 bytes"},
		"a number beyond 32 bits": {kind: "echo", change: func(x *echo) { x.Limit = 1 << 31 },
			code: code.Verifier(15), text: "limit is 2147483648"},
		"a number without sense": {kind: "echo", change: func(x *echo) { x.Limit = 0 }, code: code.TaskSpec,
			text: "limit is 0"},
		"no such method": {kind: "echo", change: func(x *echo) { x.Method = "see" },
			code: code.Verifier(27), text: `META: the task uses method "see", which the artifact lacks`},
		"a method that does not fit": {kind: "echo", change: func(x *echo) { x.Method, x.Input = "blend", "x" },
			code: code.Verifier(27), text: "META: the task does not fit method blend: "},
	} {
		f := forge(t)
		x := anEcho(t, c.kind)
		if c.change != nil {
			c.change(x)
		}
		f.c.meta.Task = x
		if c.from != "" {
			f.body = func(k Kind, b []byte) []byte {
				if k == KindMeta && !bytes.Contains(b, []byte(c.from)) {
					t.Fatalf("%s: META does not hold %q", name, c.from)
				}
				return bytes.Replace(b, []byte(c.from), []byte(c.to), 1)
			}
		}
		if _, err := verifyBytes(f.file()); !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v; want %q", name, err, c.text)
		}
	}
	for want, change := range map[error]func(*task.Segment){
		code.TaskSpec:     func(s *task.Segment) { s.Size = 0 },
		code.Verifier(27): func(s *task.Segment) { s.Size = 9 },
	} {
		f := forge(t)
		change(f.c.meta.Task.(*task.Segment))
		if _, err := verifyBytes(f.file()); !errors.Is(err, want) {
			t.Errorf("%v; want %v", err, want)
		}
	}
}

// TestAttachments checks that attachments of a task are weights with the bytes of a file.
func TestAttachments(t *testing.T) {
	extend := tinymodel.Program(t, tinymodel.Extend, "cpu")
	file := []byte("{}\n")
	for _, c := range []struct {
		name, text string
		typ        ir.Type
	}{
		{"tokenizer.json", "", ir.TypeOf(dtype.U8, 3)},
		{"tokenizer", `attachment "tokenizer.json"; the artifact has no weight u8[n] of that name`,
			ir.TypeOf(dtype.U8, 3)},
		{"tokenizer.json", "no weight u8[n]", ir.TypeOf(dtype.U8, 3, 1)},
		{"tokenizer.json", "no weight u8[n]", ir.TypeOf(dtype.I8, 3)},
	} {
		about := tinymodel.TextTask()
		about.Tokenizer = "tokenizer.json"
		path := filepath.Join(t.TempDir(), "a.rlx")
		_, err := Write(
			t.Context(), path, Artifact{Programs: []*program.Program{extend}, Meta: Meta{Model: "text", Task: about}},
			[]Weight{{Name: c.name, Type: c.typ,
				Write: func(w io.Writer) error { _, err := w.Write(file); return err }}})
		if c.text != "" {
			if err == nil || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%s %v: %v; want %q", c.name, c.typ, err, c.text)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		v, err := Open(path, Policy{})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if got := v.Meta().Task; !reflect.DeepEqual(got, about) {
			t.Errorf("%+v came back as %+v", about, got)
		}
	}
}
