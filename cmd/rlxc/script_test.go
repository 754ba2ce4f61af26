package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/internal/synth"
	"github.com/rlx-go/rlx/internal/testbin"
)

// The scripts run this test binary as rlxc.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"rlxc": main}) }

const manifest = "../../testdata/goldens/sam_tiny/manifest.json"

// synthesize is `synthesize FOLDER TO`: it writes the checkpoint and the configuration of a folder of testdata/goldens.
func synthesize(ts *testscript.TestScript, _ bool, args []string) {
	from, to := filepath.Join(ts.Getenv("GOLDENS"), args[0]), ts.MkAbs(args[1])
	es, err := synth.ReadManifest(filepath.Join(from, "manifest.json"))
	ts.Check(err)
	ts.Check(os.MkdirAll(to, 0o777))
	ts.Check(synth.Write(filepath.Join(to, "model.safetensors"), es, dtype.F32))
	b, err := os.ReadFile(filepath.Join(from, "config.json"))
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(to, "config.json"), b, 0o666))
}

// TestCommand runs scripts on tiny.safetensors, a SAM whose decoder has two heads.
func TestCommand(t *testing.T) {
	goldens, err := filepath.Abs("../../testdata/goldens")
	if err != nil {
		t.Fatal(err)
	}
	tiny := filepath.Join(t.TempDir(), "tiny.safetensors")
	es, err := synth.ReadManifest(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if err := synth.Write(tiny, es, dtype.F32); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(e *testscript.Env) error {
			b, err := os.ReadFile(tiny)
			if err != nil {
				return err
			}
			e.Setenv("HEADS", "mask_decoder_config.num_attention_heads")
			llama, err := filepath.Abs("../../models/gguf/testdata/demo-llama-Q4_0.gguf")
			if err != nil {
				return err
			}
			e.Setenv("GGUF", llama)
			e.Setenv("GOLDENS", goldens)
			return os.WriteFile(filepath.Join(e.WorkDir, "tiny.safetensors"), b, 0o666)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"synthesize": synthesize, "exit": exitStatus, "flip": flip, "head": head, "edit": edit, "shard": shard,
			"isjson": isJSON, "differ": differ, "huge": huge,
		},
	})
}

// exitStatus is `exit STATUS COMMAND...`: the command must exit with that status. stdout and stderr then check its
// output.
func exitStatus(ts *testscript.TestScript, _ bool, args []string) {
	var e *exec.ExitError
	got := 0
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &e) {
		got = e.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit status %d; want %s", got, args[0])
	}
}

// flip is `flip FROM TO OFFSET`: it copies a file with one bit changed. A negative offset counts from the end.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	at, err := strconv.Atoi(args[2])
	ts.Check(err)
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o666))
}

// head is `head FROM TO N`: it copies the first N bytes or, if N is negative, all but the last -N.
func head(ts *testscript.TestScript, _ bool, args []string) {
	b := ts.ReadFile(args[0])
	n, err := strconv.Atoi(args[2])
	ts.Check(err)
	if n < 0 {
		n += len(b)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(b[:n]), 0o666))
}

// stored is the entry of one tensor in a checkpoint's header.
type stored struct {
	DType   string `json:"dtype"`
	Shape   []any  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// edit is `edit FROM TO CHANGE...`: it copies a checkpoint with changes to its header: "drop NAME", "add NAME N" (N
// floats), "dims NAME D,D..." (another shape for the same bytes), "type NAME T", "move NAME BYTES" (shifts its offsets)
// and "rename NAME NAME".
func edit(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	n := int(binary.LittleEndian.Uint64(b))
	header, data := map[string]stored{}, b[8+n:]
	ts.Check(json.Unmarshal(b[8:8+n], &header))
	for _, change := range args[2:] {
		f := strings.Fields(change)
		t, ok := header[f[1]]
		if !ok && f[0] != "add" {
			ts.Fatalf("%s: no such tensor", change)
		}
		switch f[0] {
		case "drop":
			data = append(data[:t.Offsets[0]:t.Offsets[0]], data[t.Offsets[1]:]...)
			delete(header, f[1])
			for name, o := range header {
				if o.Offsets[0] >= t.Offsets[1] {
					o.Offsets = [2]int{o.Offsets[0] - t.Offsets[1] + t.Offsets[0],
						o.Offsets[1] - t.Offsets[1] + t.Offsets[0]}
					header[name] = o
				}
			}
			continue
		case "rename":
			delete(header, f[1])
			f[1] = f[2]
		case "add":
			size, err := strconv.Atoi(f[2])
			ts.Check(err)
			t = stored{"F32", []any{size}, [2]int{len(data), len(data) + 4*size}}
			data = append(data, make([]byte, 4*size)...)
		case "dims":
			t.Shape = nil
			for d := range strings.SplitSeq(f[2], ",") {
				t.Shape = append(t.Shape, json.Number(d))
			}
		case "type":
			t.DType = f[2]
		case "move":
			by, err := strconv.Atoi(f[2])
			ts.Check(err)
			t.Offsets = [2]int{t.Offsets[0] + by, t.Offsets[1] + by}
		default:
			ts.Fatalf("unknown change %q", change)
		}
		header[f[1]] = t
	}
	writeCheckpoint(ts, args[1], header, data)
}

func writeCheckpoint(ts *testscript.TestScript, path string, header map[string]stored, data []byte) {
	doc, err := json.Marshal(header)
	ts.Check(err)
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(doc)))
	ts.Check(os.WriteFile(ts.MkAbs(path), append(append(out, doc...), data...), 0o666))
}

// shard is `shard FROM DIR`: it writes the checkpoint as two files with an index.
func shard(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	n := int(binary.LittleEndian.Uint64(b))
	header, data := map[string]stored{}, b[8+n:]
	ts.Check(json.Unmarshal(b[8:8+n], &header))
	files := [2]string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}
	index := map[string]string{}
	var headers [2]map[string]stored
	var parts [2][]byte
	i := 0
	for name, t := range header {
		part := i % 2
		i++
		if headers[part] == nil {
			headers[part] = map[string]stored{}
		}
		begin := len(parts[part])
		parts[part] = append(parts[part], data[t.Offsets[0]:t.Offsets[1]]...)
		headers[part][name] = stored{t.DType, t.Shape, [2]int{begin, len(parts[part])}}
		index[name] = files[part]
	}
	ts.Check(os.MkdirAll(ts.MkAbs(args[1]), 0o777))
	for i, f := range files {
		writeCheckpoint(ts, filepath.Join(args[1], f), headers[i], parts[i])
	}
	doc, err := json.Marshal(map[string]any{"weight_map": index})
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(filepath.Join(args[1], "model.safetensors.index.json")), doc, 0o666))
}

// huge is `huge FROM TO NAME`: it copies a checkpoint and sets the first value of the F32 tensor NAME to 1e30.
func huge(ts *testscript.TestScript, _ bool, args []string) {
	b := []byte(ts.ReadFile(args[0]))
	n := int(binary.LittleEndian.Uint64(b))
	header := map[string]stored{}
	ts.Check(json.Unmarshal(b[8:8+n], &header))
	binary.LittleEndian.PutUint32(b[8+n+header[args[2]].Offsets[0]:], math.Float32bits(1e30))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o666))
}

// isJSON is `isjson FILE`: the file must be exactly one JSON value.
func isJSON(ts *testscript.TestScript, _ bool, args []string) {
	if !json.Valid([]byte(ts.ReadFile(args[0]))) {
		ts.Fatalf("%s is not JSON:\n%s", args[0], ts.ReadFile(args[0]))
	}
}

// differ is `differ FILE FILE`: the files must differ.
func differ(ts *testscript.TestScript, _ bool, args []string) {
	if ts.ReadFile(args[0]) == ts.ReadFile(args[1]) {
		ts.Fatalf("%s and %s are the same", args[0], args[1])
	}
}

var definition = regexp.MustCompile(`diag\.Define\("(RLX\d{4})"`)

// TestExplainsEveryCode checks that both rlxc and rlxrun explain every error code of the tree, so that users can look
// up a code with the command at hand.
func TestExplainsEveryCode(t *testing.T) {
	rlxrun := filepath.Join(t.TempDir(), "rlxrun")
	if err := testbin.Build(rlxrun, "cmd/rlxrun"); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(rlxrun, "explain", "--format", "json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var list []struct{ Code diag.Code }
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	byRun := map[diag.Code]bool{}
	for _, e := range list {
		byRun[e.Code] = true
	}
	seen := 0
	err = filepath.WalkDir("../..", func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return err
		}
		src, err := os.ReadFile(p)
		for _, m := range definition.FindAllSubmatch(src, -1) {
			seen++
			code := diag.Code(m[1])
			if _, ok := diag.Lookup(code); !ok {
				t.Errorf("%s defines %s, which rlxc does not explain; move it to core/code", p, code)
			}
			if !byRun[code] {
				t.Errorf("%s defines %s, which rlxrun does not explain; move it to core/code", p, code)
			}
		}
		return err
	})
	if err != nil || seen == 0 || len(list) < seen {
		t.Errorf("%d definitions found, %d explained: %v", seen, len(list), err)
	}
}
