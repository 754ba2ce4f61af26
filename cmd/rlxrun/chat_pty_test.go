//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// A terminal has a program in it.
type terminal struct {
	t    *testing.T
	tty  *os.File
	read chan string
	seen string // that expect has not found yet
}

// expect waits until the program has written a text, and forgets the text before it.
func (s *terminal) expect(want string) {
	s.t.Helper()
	guard := time.After(hangGuard)
	for {
		if _, after, ok := strings.Cut(s.seen, want); ok {
			s.seen = after
			return
		}
		select {
		case more, ok := <-s.read:
			if !ok {
				s.t.Fatalf("the program ended before it wrote %q; it wrote %.1000q", want, s.seen)
			}
			s.seen += more
		case <-guard:
			s.t.Fatalf("the program never wrote %q; it wrote %.1000q", want, s.seen)
		}
	}
}

func (s *terminal) send(keys string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// chatLlama compiles the demo model with a chat template.
func chatLlama(t *testing.T, dir string) (model string) {
	file, err := llama()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(dir, "llama")
	if err := os.CopyFS(source, os.DirFS("../../demo/llama")); err != nil {
		t.Fatal(err)
	}
	change := func(name, key string, value any) {
		path := filepath.Join(source, name)
		b, err := os.ReadFile(path)
		var config map[string]any
		if err == nil {
			err = json.Unmarshal(b, &config)
		}
		if err == nil {
			config[key] = value
			b, err = json.Marshal(config)
		}
		if err == nil {
			err = os.Chmod(path, 0o644)
		}
		if err == nil {
			err = os.WriteFile(path, b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	change("tokenizer_config.json", "chat_template",
		"{% for m in messages %}{{ m.role|upper }}:\n{{ m.content }}\n\n{% endfor %}A:\n")
	change("config.json", "max_position_embeddings", 16384) // an answer does not fit the buffer of a terminal
	model = filepath.Join(dir, "chat.rlx")
	if out, err := exec.Command(filepath.Join(filepath.Dir(file), "rlxc"), source, "-o", model, "--target", "cpu",
		"--context", "16384").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return model
}

// TestChatTerminal talks with a model in a terminal: editing, history, and Ctrl-C, which stops an answer first and ends
// the program when it is pressed twice at the prompt.
func TestChatTerminal(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs the demo model")
	}
	dir := t.TempDir()
	model := chatLlama(t, dir)
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"\x03\x03", "\x04", "/exit\r"} {
		cmd := exec.Command(filepath.Join(bin, "rlxrun"), "chat", model, "-n", "16000", "--threads", "1")
		cmd.Env = append(os.Environ(), "TERM=xterm")
		tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 100})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); tty.Close() })
		s := &terminal{t: t, tty: tty, read: make(chan string)}
		go func() {
			defer close(s.read)
			b := make([]byte, 256)
			for {
				n, err := tty.Read(b)
				if err != nil {
					return
				}
				s.read <- string(b[:n])
			}
		}()
		s.expect("Ctrl-D ends")
		s.expect("> ")
		s.send("Hello") // backspace, left and the arrow up edit
		s.send("\x7f\x7fp me\r")
		s.expect("p me")
		s.expect("e") // of the answer, which waits while nobody reads it
		s.send("\x03")
		s.expect("stopped")
		s.expect("> ")
		s.send("/histor\x1b[D\x1b[Ct\x7fy\r")
		s.expect("1 you: Help me")
		s.expect("2 model: ")
		s.expect("> ")
		s.send("\x1b[A\r") // the last line again
		s.expect("1 you: Help me")
		s.expect("> ")
		s.send("/nothing\r")
		s.expect("/nothing: no such command")
		s.expect("> ")
		s.send("half a line\x03")
		s.expect("Ctrl-C again")
		s.expect("> ")
		s.send("/system short\r")
		s.expect("> ")
		s.send("/retry\r")
		s.expect("/retry")
		s.expect("e")
		s.send("\x03")
		s.expect("stopped")
		s.expect("> ")
		s.send(end)
		go func() {
			for range s.read { // the program must not wait for its reader
			}
		}()
		guard := time.AfterFunc(hangGuard, func() { cmd.Process.Kill() })
		err = cmd.Wait()
		guard.Stop()
		if err != nil {
			t.Errorf("%q: %v", end, err)
		}
	}
}
