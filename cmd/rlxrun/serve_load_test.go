package main

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlx-go/rlx/internal/rlxtest"
)

// TestServeLoad: an artifact is loaded again while requests are in progress. None of them fails, the old backend ends,
// and a bad file changes nothing.
func TestServeLoad(t *testing.T) {
	s := tinySession(t, debugFlags{})
	path := s.model.Path()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rlxtest.Children(t) // skips the test where the system does not list them
	ask, end, notes := servedBy(t, s, &serveFlags{api: apiFlags{api: true}})
	const infer, load = "/v2/models/tiny.encode/infer", "/v2/repository/models/tiny/load"
	request := `{"inputs":[{"name":"image","datatype":"FP32","shape":[1,3,8,8],"data":[` +
		strings.TrimSuffix(strings.Repeat("0.5,", 3*8*8), ",") + `]}]}`
	status, want := ask("POST", infer, request)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, want)
	}
	put := func(b []byte) { // by a rename, as compilers do it
		t.Helper()
		temporary := filepath.Join(filepath.Dir(path), "new")
		if err := os.WriteFile(temporary, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(temporary, path); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if status, body := ask("POST", infer, request); status != http.StatusOK || !bytes.Equal(body, want) {
					t.Errorf("while it is loaded: status %d: %.300s", status, body)
				}
			}
		})
	}
	bad := slices.Clone(good)
	bad[len(bad)-1] ^= 1
	for _, c := range []struct {
		file   []byte
		path   string
		status int
		answer string
	}{
		{good, load, 200, "{}"}, {good, load, 200, "{}"},
		{good[:len(good)/2], load, 400, "RLX"}, {bad, load, 400, "RLX"}, {nil, load, 400, "RLX"},
		{good, "/v2/repository/models/other/load", 404, "no artifact of that name"},
		{good, load, 200, "{}"},
	} {
		put(c.file)
		if status, body := ask("POST", c.path, ""); status != c.status || !strings.Contains(string(body), c.answer) {
			t.Errorf("%d bytes, %s: status %d: %s; want %d with %q", len(c.file), c.path, status, body, c.status,
				c.answer)
		}
	}
	close(stop)
	all.Wait()
	// the sessions that were replaced end once their last request has
	for len(rlxtest.Children(t)) > 1 {
		time.Sleep(time.Millisecond)
	}
	reason := errors.New("a signal")
	if err := end(reason); err != reason {
		t.Errorf("the command ends with %v", err)
	}
	if !strings.Contains(notes.String(), "not loaded") {
		t.Errorf("stderr is %q", notes)
	}
}
