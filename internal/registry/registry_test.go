package registry

import (
	"bytes"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	server "github.com/google/go-containerregistry/pkg/registry"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
)

// testRegistry is a registry of go-containerregistry, with an optional fault between it and the client.
type testRegistry struct {
	http.Handler
	host   string
	fault  func(w http.ResponseWriter, r *http.Request) (handled bool)
	ranges []string // the Range headers of requests for blobs
}

func newRegistry(t *testing.T) *testRegistry {
	r := &testRegistry{Handler: server.New(server.Logger(log.New(io.Discard, "", 0)))}
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	r.host = strings.TrimPrefix(s.URL, "http://")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	return r
}

func (x *testRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
		x.ranges = append(x.ranges, r.Header.Get("Range"))
		w.Header().Set("Accept-Ranges", "bytes")
		if x.fault != nil && x.fault(w, r) {
			return
		}
	}
	x.Handler.ServeHTTP(w, r)
}

var artifact = bytes.Repeat([]byte("artifact"), 1<<14)

func push(t *testing.T, ref string) string {
	t.Helper()
	pinned, err := open(t, ref).Push(t.Context(), bytes.NewReader(artifact), int64(len(artifact)), func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return pinned
}

func open(t *testing.T, ref string) *Repository {
	t.Helper()
	r, err := Open(ref, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func pull(t *testing.T, ref, path string) (string, error) {
	return open(t, ref).Pull(t.Context(), path, func(done, size int64) {}, func(string) error { return nil })
}

// isWhole fails the test unless path is the only file of its folder and has the artifact's bytes.
func isWhole(t *testing.T, path string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, artifact) {
		t.Fatalf("the file has %d bytes, error %v; want the artifact's %d", len(got), err, len(artifact))
	}
	isAlone(t, filepath.Dir(path), 1)
}

func isAlone(t *testing.T, dir string, want int) {
	t.Helper()
	if files, err := os.ReadDir(dir); err != nil || len(files) != want {
		t.Fatalf("the folder has %v, error %v; want %d files", files, err, want)
	}
}

func wantCode(t *testing.T, err error, text string) {
	t.Helper()
	var d *diag.Error
	if !errors.As(err, &d) || d.Code != code.Registry || !strings.Contains(err.Error(), text) {
		t.Fatalf("error is %v; want %s with %q", err, code.Registry, text)
	}
}

func TestPushPull(t *testing.T) {
	r := newRegistry(t)
	tag := r.host + "/me/sam:v1"
	pinned := push(t, tag)
	if again := push(t, tag); again != pinned || !strings.HasPrefix(pinned, r.host+"/me/sam@sha256:") {
		t.Errorf("pushed twice, the references are %s and %s", pinned, again)
	}
	for _, ref := range []string{tag, pinned} {
		path := filepath.Join(t.TempDir(), "sam.rlx")
		if got, err := pull(t, ref, path); err != nil || got != pinned {
			t.Fatalf("pull returned %s, %v; want %s", got, err, pinned)
		}
		isWhole(t, path)
	}
}

// A pull that is interrupted continues with the bytes that are missing, also if the registry sends only whole files.
func TestPullContinues(t *testing.T) {
	for _, parts := range []bool{true, false} {
		r := newRegistry(t)
		tag := r.host + "/me/sam:v1"
		push(t, tag)
		path := filepath.Join(t.TempDir(), "sam.rlx")
		r.fault = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "131072")
			w.Write(artifact[:100_000])
			panic(http.ErrAbortHandler)
		}
		_, err := pull(t, tag, path)
		wantCode(t, err, "after 100000 of 131072 bytes")
		isAlone(t, filepath.Dir(path), 1) // the beginning
		r.fault = func(w http.ResponseWriter, _ *http.Request) bool {
			if !parts {
				w.Header().Del("Accept-Ranges")
			}
			return false
		}
		r.ranges = nil
		if _, err := pull(t, tag, path); err != nil {
			t.Fatal(err)
		}
		isWhole(t, path)
		if got := strings.Join(r.ranges, " "); parts != strings.Contains(got, "bytes=100000-") {
			t.Errorf("registry that sends parts: %v; the requests were for %q", parts, r.ranges)
		}
	}
}

// A registry that sends other bytes does not get them into the file, and a wrong file is not kept.
func TestPullRefuses(t *testing.T) {
	r := newRegistry(t)
	tag := r.host + "/me/sam:v1"
	push(t, tag)
	path := filepath.Join(t.TempDir(), "sam.rlx")
	r.fault = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Length", "131072")
		w.Write(bytes.Repeat([]byte("otherbit"), 1<<14))
		return true
	}
	_, err := pull(t, tag, path)
	wantCode(t, err, "do not have the digest")
	r.fault = nil
	bad := errors.New("not valid")
	_, err = open(t, tag).Pull(t.Context(), path, func(int64, int64) {}, func(string) error { return bad })
	if !errors.Is(err, bad) {
		t.Errorf("error is %v; want that of the verifier", err)
	}
	isAlone(t, filepath.Dir(path), 0)

	// neither a longer file with the name of the beginning
	part := filepath.Join(filepath.Dir(path), ".sam.rlx."+partName+".part")
	if err := os.WriteFile(part, append(artifact, 0), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = pull(t, tag, path)
	wantCode(t, err, "do not have the digest")
	isAlone(t, filepath.Dir(path), 0)
}

// partName is the beginning of the artifact's digest.
const partName = "06e3b626da3723ab"

func TestReferences(t *testing.T) {
	r := newRegistry(t)
	pinned := push(t, r.host+"/me/sam:v1")
	path := filepath.Join(t.TempDir(), "sam.rlx")
	_, err := pull(t, r.host+"/me/sam:v2", path)
	wantCode(t, err, "looking up the reference failed")
	_, err = open(t, pinned).Push(t.Context(), bytes.NewReader(artifact), int64(len(artifact)), func(int64) {})
	wantCode(t, err, "is a digest")
	for ref, want := range map[string]string{"sam": "not a reference", r.host + "/me/sam": "neither a tag nor a digest",
		r.host + "/me/sam@sha256:12": "not a reference"} {
		_, err := Open(ref, false)
		wantCode(t, err, want)
	}

	// an image
	image := `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{},"layers":[]}`
	req, err := http.NewRequest(http.MethodPut, "http://"+r.host+"/v2/me/sam/manifests/image", strings.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
	answer, err := http.DefaultClient.Do(req)
	if err != nil || answer.StatusCode != http.StatusCreated {
		t.Fatalf("the registry answers %v, %v", answer, err)
	}
	answer.Body.Close()
	_, err = pull(t, r.host+"/me/sam:image", path)
	wantCode(t, err, "0 layers")
	isAlone(t, filepath.Dir(path), 0)
}
