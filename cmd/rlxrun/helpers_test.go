package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/program"
	"github.com/rlx-go/rlx/internal/cli"
	"github.com/rlx-go/rlx/internal/tinymodel"
)

// tinyPrograms are a model with the task "segment" whose results can be computed by hand.
func tinyPrograms(t testing.TB) []*program.Program {
	return []*program.Program{tinymodel.Program(t, tinymodel.Encode, "cpu"),
		tinymodel.Program(t, tinymodel.Decode, "cpu")}
}

// tinySession returns a session with that model.
func tinySession(t testing.TB, debug debugFlags) *session {
	path := filepath.Join(t.TempDir(), "tiny.rlx")
	writeArtifact(t, path, tinymodel.Task(), tinyPrograms(t)...)
	return sessionOf(t, path, debug)
}

// graphSession returns a session with a model of one method.
func graphSession(t testing.TB, text string, debug debugFlags) *session {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.rlx")
	writeArtifact(t, path, nil, tinymodel.Program(t, text, "cpu"))
	return sessionOf(t, path, debug)
}

// sessionOf opens an artifact and starts a backend, which is this test binary; see TestMain.
func sessionOf(t testing.TB, path string, debug debugFlags) *session {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := &cli.Env{Program: "rlxrun", Stdin: &bytes.Buffer{}, Stdout: io.Discard, Stderr: io.Discard}
	f := &hostFlags{backend: "cpu", threads: "1"}
	f.plugins.Set("cpu=" + self)
	o, err := f.options(env)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSession(t.Context(), env, path, f, o, debug)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	s.trace = &trace{origin: time.Now()}
	return s
}

func isCode(err, code error) bool { return errors.Is(err, code) }

func wantError(t *testing.T, what string, err error, code error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error; want %v", what, code)
		return
	}
	if !isCode(err, code) {
		t.Errorf("%s: %v; want %v", what, err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v; want it to say %q", what, err, text)
		}
	}
}

// someRun runs the only method of a model on generated inputs.
func someRun(t *testing.T, s *session) (*rlx.Result, error) {
	t.Helper()
	m := s.model.Methods()[0]
	sizes, err := benchSizes(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.ready(t.Context(), nil, nil, m); err != nil {
		t.Fatal(err)
	}
	return s.Run(t.Context(), rlx.Request{Method: m.Name, Inputs: madeUp(m.Inputs, sizes, 1)})
}
