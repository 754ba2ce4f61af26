//go:build unix

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// notes is what a process has written.
type notes struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds a text.
func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(b)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.String()
}

// await waits until the notes have so many lines with a text.
func (n *notes) await(t *testing.T, text string, count int) {
	t.Helper()
	for end := time.Now().Add(hangGuard); strings.Count(n.String(), text) < count; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q is not there %d times:\n%s", text, count, n)
		}
	}
}

// TestServeHangup sends SIGHUP to a server of a language model while texts are streamed: with a new file, with the same
// one, several times at once, and with files that cannot be used. No text is cut off or changed, a bad file changes
// nothing, and the answers come from the new file once it is loaded.
func TestServeHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored, as nohup arranges it, also in the processes that this one starts")
	}
	file, err := llama()
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := filepath.Dir(file), t.TempDir()
	compile := func(name string, flags ...string) []byte {
		t.Helper()
		path := filepath.Join(dir, name)
		args := append([]string{"../../demo/llama", "--target", "cpu", "--batch", "4", "-q", "-o", path}, flags...)
		if out, err := exec.Command(filepath.Join(bin, "rlxc"), args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good, short := compile("good.rlx"), compile("short.rlx", "--context", "64")
	other, err := os.ReadFile(filepath.Join(bin, "sam.rlx"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(b []byte) { // by a rename, as compilers do it
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "new"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "m.rlx")); err != nil {
			t.Fatal(err)
		}
	}
	put(good)
	cmd := exec.Command(filepath.Join(bin, "rlxrun"), "serve", filepath.Join(dir, "m.rlx"), "--port", "0",
		"--threads", "1", "--access-log", "text",
		"-b", "cpu")
	said := &notes{}
	cmd.Stderr = said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait() // other tests wait until this process has no children
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	// ask returns the status and the answer to a streamed request
	ask := func(prompt string, n int) (int, string) {
		body := fmt.Sprintf(`{"model":"m","prompt":%q,"max_tokens":%d,"temperature":0,"stream":true}`, prompt, n)
		r, err := http.Post(strings.TrimSpace(url)+"/completions", "application/json", strings.NewReader(body))
		if err != nil {
			return 0, err.Error()
		}
		defer r.Body.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(r.Body); err != nil {
			return 0, err.Error()
		}
		var text strings.Builder // the pieces of the text, in order, and the end
		for line := range strings.Lines(b.String()) {
			if _, piece, ok := strings.Cut(line, `"text":"`); ok {
				piece, _, _ = strings.Cut(piece, `","`)
				text.WriteString(piece)
			}
			if strings.HasPrefix(line, "data: [DONE]") {
				text.WriteString("[DONE]")
			}
		}
		if r.StatusCode != http.StatusOK {
			return r.StatusCode, b.String()
		}
		return r.StatusCode, text.String()
	}
	status, want := ask("ROMEO:", 30)
	if status != 200 || !strings.HasSuffix(want, "[DONE]") || len(want) < 40 {
		t.Fatalf("status %d: %s\n%s", status, want, said)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	answered := 0
	for k := range 3 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status, text := ask("ROMEO:", 30); status != 200 || text != want {
					t.Errorf("status %d: %q; want %q", status, text, want)
					return
				}
				if k == 0 {
					answered++
				}
			}
		})
	}
	hangup := func() {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	const loaded, refused = "msg=loaded", `msg="not loaded"`
	damaged := bytes.Clone(good)
	damaged[len(damaged)-1] ^= 1
	did, failed := 0, 0
	for i, c := range []struct {
		file []byte
		ok   bool
	}{{good, true}, {damaged, false}, {good[:len(good)/2], false}, {nil, false}, {other, false}, {short, true},
		{[]byte("not an artifact"), false}, {good, true}} {
		put(c.file)
		hangup()
		if c.ok {
			did++
		} else {
			failed++
		}
		said.await(t, loaded, did)
		said.await(t, refused, failed)
		// a prompt that only the longer context holds
		status, text := ask(strings.Repeat("a b c d ", 20), 1)
		if fits := did != 2; fits != (status == 200) {
			t.Errorf("file %d: a long prompt gives status %d: %s", i, status, text)
		}
	}
	if err := os.Remove(filepath.Join(dir, "m.rlx")); err != nil {
		t.Fatal(err)
	}
	hangup()
	said.await(t, refused, failed+1)
	put(good)
	for range 5 {
		hangup()
	}
	said.await(t, loaded, did+1)
	close(stop)
	all.Wait()
	if answered == 0 {
		t.Error("no text was streamed meanwhile")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("ends with %v\n%s", err, said)
	}
	for _, code := range []string{"RLX4012", "RLX4004", "RLX4002"} { // digest, size, not an artifact
		if !strings.Contains(said.String(), code) {
			t.Errorf("no %s in the log:\n%s", code, said)
		}
	}
}
