package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/rlxtest"
)

// served starts `rlxrun serve` for the tiny model and an image whose left half is bright. ask makes a request to the
// page. end stops the command with an error and returns the error of the command. notes has what it wrote to stderr by
// then.
func served(t *testing.T) (ask func(method, path, body string) (int, []byte), end func(error) error,
	notes *strings.Builder) {
	t.Helper()
	return servedBy(t, tinySession(t, debugFlags{}), &serveFlags{image: twoColours(t, 32, 16)})
}

// servedBy starts `rlxrun serve` for the artifact of a session.
func servedBy(t *testing.T, s *session, f *serveFlags) (ask func(method, path, body string) (int, []byte),
	end func(error) error, notes *strings.Builder) {
	t.Helper()
	out, in := io.Pipe()
	notes = &strings.Builder{}
	s.env.Stdout, s.env.Stderr = in, notes
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		err := s.serve(ctx, f)
		in.CloseWithError(err)
		ended <- err
	}()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	ask = func(method, path, body string) (int, []byte) {
		t.Helper()
		r, err := http.NewRequest(method, strings.TrimSpace(url)+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, nil
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b
	}
	return ask, func(err error) error {
		cancel(err)
		return <-ended
	}, notes
}

// TestServe checks that the page returns the mask of the model, and that signals end the command.
func TestServe(t *testing.T) {
	ask, end, _ := served(t)
	status, body := ask("POST", "images/0/masks", `{"points":[[3,3]],"mask":"0"}`)
	var a struct {
		Mask, Pixels int
		Quality      []float64
		Runs         []int
	}
	if err := json.Unmarshal(body, &a); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", status, err, body)
	}
	// the bright half
	if a.Pixels != 256 || len(a.Quality) != 4 || a.Runs[0] != 0 || a.Runs[1] != 16 || len(a.Runs) != 33 {
		t.Errorf("the answer is %s", body)
	}
	status, body = ask("POST", "images/0/masks", `{"points":[[32,3]],"mask":"0"}`)
	if status != http.StatusUnprocessableEntity || !bytes.Contains(body, []byte("RLX2030")) {
		t.Errorf("a point outside: status %d: %s", status, body)
	}
	_, body = ask("POST", "images/0/masks", `{"points":[[3,3]],"mask":"1"}`)
	if err := json.Unmarshal(body, &a); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	runs, err := json.Marshal(a.Runs)
	if err != nil {
		t.Fatal(err)
	}
	_, file := ask("POST", "images/0/file", `{"save":"mask","runs":`+string(runs)+"}")
	if m, err := png.Decode(bytes.NewReader(file)); err != nil {
		t.Error(err)
	} else if dark, _, _, _ := m.At(20, 3).RGBA(); dark != 0xffff {
		t.Error("mask 1 is not the dark half")
	}
	// An image with an EXIF rotation is shown upright, as the model sees it.
	var photo bytes.Buffer
	if err := jpeg.Encode(&photo, image.NewGray(image.Rect(0, 0, 32, 16)), nil); err != nil {
		t.Fatal(err)
	}
	// rotate clockwise
	const exif = "\xff\xe1\x00\x22Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x01\x01\x12\x00\x03\x00\x00\x00\x01\x00\x06\x00\x00\x00\x00\x00\x00"
	_, body = ask("POST", "images", photo.String()[:2]+exif+photo.String()[2:])
	if want := `{"number":1,"width":16,"height":32}`; strings.TrimSpace(string(body)) != want {
		t.Errorf("a photo on its side is %s; want %s", body, want)
	}
	if _, pixels := ask("GET", "images/1/pixels", ""); len(pixels) != 4*16*32 {
		t.Errorf("it has %d bytes of pixels", len(pixels))
	}
	stop := errors.New("a signal")
	if err := end(stop); err != stop {
		t.Errorf("the command ends with %v", err)
	}
	if status, _ := ask("GET", "start", ""); status != 0 {
		t.Error("the page answers after the end")
	}
}

// TestServeLostBackend checks that a backend that was killed is started again and the click answered, however often.
func TestServeLostBackend(t *testing.T) {
	before := rlxtest.Children(t)
	ask, end, notes := served(t)
	const path, click = "images/0/masks", `{"points":[[3,3]],"mask":"0"}`
	status, want := ask("POST", path, click)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, want)
	}
	same := func(body []byte) bool { // but for the time
		a, _, _ := bytes.Cut(body, []byte(`"seconds"`))
		b, _, _ := bytes.Cut(want, []byte(`"seconds"`))
		return bytes.Equal(a, b)
	}
	for kills := range 4 {
		rlxtest.Kill(t, before)
		if status, body := ask("POST", path, click); status != http.StatusOK || !same(body) {
			t.Errorf("after %d kills: status %d: %s; want %s", kills+1, status, body, want)
		}
	}
	if status, body := ask("GET", "start", ""); status != http.StatusOK {
		t.Errorf("the page: status %d: %s", status, body)
	}
	stop := errors.New("a signal")
	if err := end(stop); err != stop {
		t.Errorf("the command ends with %v", err)
	}
	for _, s := range []string{"was ended by SIGKILL", "; it was started again\n"} {
		if !strings.Contains(notes.String(), s) {
			t.Errorf("stderr is %q; want %q", notes, s)
		}
	}
}

// TestServeListen lets other machines use the page, and says so.
func TestServeListen(t *testing.T) {
	s := tinySession(t, debugFlags{})
	ask, end, notes := servedBy(t, s, &serveFlags{image: twoColours(t, 32, 16), api: apiFlags{listen: "0.0.0.0:0"}})
	// The name of this machine may not be known to itself.
	if status, body := ask("GET", "start", ""); status != http.StatusOK && status != 0 {
		t.Errorf("status %d: %s", status, body)
	}
	stop := errors.New("a signal")
	if err := end(stop); err != stop {
		t.Errorf("the command ends with %v", err)
	}
	if !strings.Contains(notes.String(), "anyone who has the address can use the page") ||
		!strings.Contains(notes.String(), "--tls-cert") {
		t.Errorf("the notes are %q", notes)
	}
}
