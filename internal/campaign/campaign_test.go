package campaign

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// FuzzExample fails on inputs that campaigns must find.
func FuzzExample(t *testing.F) {
	f := New(t)
	f.Add([]byte("hello"), "world", uint8(3))
	f.Add([]byte{1, 2, 3, 4}, "x", uint8(4))
	hostile := os.Getenv("RLX_TEST_HOSTILE") != ""
	f.Fuzz(func(t testing.TB, b []byte, s string, k uint8) {
		if !hostile {
			return
		}
		if bytes.Contains(b, []byte{0xff, 0xff}) {
			panic("two")
		}
		if k == 77 {
			t.Errorf("%d is refused", k)
		}
	})
}

// TestCampaign runs FuzzExample as a campaign twice, and repeats a find.
func TestCampaign(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	run := func(env ...string) ([]byte, error) {
		cmd := exec.Command(os.Args[0], "-test.run", "^FuzzExample$")
		cmd.Env = append(append(os.Environ(), EnvState+"="+path), env...)
		return cmd.CombinedOutput()
	}
	if out, err := run(EnvTime + "=50ms"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s, err := Read(path)
	const name = "internal/campaign.FuzzExample"
	if err != nil || s[name] == nil || s[name].Runs < block || s[name].Next != s[name].Runs || s[name].Finds != nil {
		t.Fatalf("%+v, %v", s[name], err)
	}
	before := s[name].Next
	out, err := run(EnvTime+"=10m", "RLX_TEST_HOSTILE=1") // ends at maxFinds
	if err == nil {
		t.Fatalf("nothing found\n%s", out)
	}
	if s, err = Read(path); err != nil || s[name].Next <= before || len(s[name].Finds) < maxFinds ||
		s[name].Finds[0].Seed < before {
		t.Fatalf("%+v, %v", s[name], err)
	}
	if out, err := run(EnvSeed+"="+fmt.Sprint(s[name].Finds[0].Seed), "RLX_TEST_HOSTILE=1"); err == nil ||
		!bytes.Contains(out, []byte(s[name].Finds[0].Input[0])) {
		t.Errorf("%v\n%s\nwant %v", err, out, s[name].Finds[0].Input)
	}
}
