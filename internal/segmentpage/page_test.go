package segmentpage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rlx-go/rlx"
	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/format"
	"github.com/rlx-go/rlx/internal/imaging"
	"github.com/rlx-go/rlx/internal/localpage/pagetest"
	"github.com/rlx-go/rlx/internal/tinymodel"
	"github.com/rlx-go/rlx/segment"
)

// fake is an image whose mask is the rectangle from (0,0) to the first point.
type fake struct {
	picture           *image.NRGBA
	encodings, closed atomic.Int32
	running           atomic.Int32              // most concurrent calls of Masks
	block             func(ctx context.Context) // called by Masks if not nil
	err               error                     // returned by Masks, Everything and Find

	concept   segment.Concept // of the last Find
	threshold float64
}

// segmenter checks prompts as a model of the task does. It runs nothing.
var segmenter = sync.OnceValue(func() *segment.Segmenter {
	dir, err := os.MkdirTemp("", "rlx")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	programs, err := tinymodel.Compile("cpu", tinymodel.Encode, tinymodel.Decode)
	path := filepath.Join(dir, "m.rlx")
	if err == nil {
		_, err = format.Write(context.Background(), path,
			format.Artifact{Programs: programs, Meta: format.Meta{Model: "tiny", Task: tinymodel.Task()}}, nil)
	}
	if err != nil {
		panic(err)
	}
	model, err := rlx.Open(context.Background(), path, rlx.OpenOptions{})
	if err != nil {
		panic(err)
	}
	s, err := segment.New(still{model})
	if err != nil {
		panic(err)
	}
	return s
})

type still struct{ model *rlx.Model }

func (s still) Model() *rlx.Model { return s.model }

func (s still) Run(context.Context, rlx.Request) (*rlx.Result, error) { panic("BUG: nothing runs") }

func newFake() *fake { return &fake{picture: image.NewNRGBA(image.Rect(0, 0, 8, 6))} }

func (f *fake) Picture() *image.NRGBA        { return f.picture }
func (f *fake) Encode(context.Context) error { f.encodings.Add(1); return nil }
func (f *fake) Close()                       { f.closed.Add(1) }

func (f *fake) Masks(ctx context.Context, p segment.Prompts, which segment.Choice) (segment.Mask, []float32, error) {
	if f.running.Add(1) != 1 {
		return segment.Mask{}, nil, errors.New("two runs at a time")
	}
	defer f.running.Add(-1)
	if f.block != nil {
		f.block(ctx)
	}
	if err := errors.Join(f.err, ctx.Err()); err != nil {
		return segment.Mask{}, nil, err
	}
	if err := segmenter().Check(p, which, f.picture.Rect.Size()); err != nil {
		return segment.Mask{}, nil, err
	}
	m := image.NewGray(f.picture.Rect)
	for y := range int(p.Points[0].Y) {
		for x := range int(p.Points[0].X) {
			m.Pix[y*m.Stride+x] = 255
		}
	}
	return segment.Mask{Token: 2, IoU: 0.5, Image: m}, []float32{0.1, float32(math.NaN()), 0.5, 0.25}, nil
}

// Everything finds the left half of the image and, before it, its first pixel.
func (f *fake) Everything(ctx context.Context, side int, each func(mask *image.Gray) error) (*segment.Segmentation,
	error) {
	if f.err != nil {
		return nil, f.err
	}
	one, half := image.NewGray(f.picture.Rect), image.NewGray(f.picture.Rect)
	one.Pix[0] = 255
	for y := range 6 {
		for x := range 4 {
			half.SetGray(x, y, color.Gray{255})
		}
	}
	at := segment.Point{X: float64(side), Y: 2}
	return &segment.Segmentation{Regions: []segment.Region{{Label: 1, IoU: 0.75, Token: 1, Point: at},
		{Label: 2, IoU: float32(math.NaN()), Token: 2}}}, errors.Join(each(one), each(half))
}

// Find finds the left half of the image.
func (f *fake) Find(_ context.Context, c segment.Concept, threshold float64) (*segment.Found, error) {
	f.concept, f.threshold = c, threshold
	if f.err != nil {
		return nil, f.err
	}
	half := image.NewGray(f.picture.Rect)
	for y := range 6 {
		for x := range 4 {
			half.SetGray(x, y, color.Gray{255})
		}
	}
	o := segment.Object{Label: 1, Score: 0.75, Box: [4]float32{-1, 0, 4, 6.5}, Mask: segment.EncodeRLE(half)}
	return &segment.Found{Closest: 0.125, Objects: []segment.Object{o}}, nil
}

var addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000}

// ask makes a request as the page itself does.
func ask(p *Page, method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	return pagetest.Ask(p, method, p.URL(addr), path, body, change...)
}

// TestFiles checks that the page's files, and no others, are served; other methods are refused.
func TestFiles(t *testing.T) {
	p := New(Options{Clicks: true, Open: func(context.Context, io.Reader) (Image, error) { return newFake(), nil }})
	for file, kind := range map[string]string{"": "text/html", "page.css": "text/css", "page.js": "text/javascript",
		"outline.js": "text/javascript", "base.css": "text/css"} {
		w := ask(p, "GET", file, "")
		pagetest.Want(t, file, w, http.StatusOK)
		if got := w.Header().Get("Content-Type"); !strings.HasPrefix(got, kind) {
			t.Errorf("%q is %s", file, got)
		}
	}
	for _, file := range []string{"none.js", "../page.go", "static/page.js", "%2e%2e/page.go"} {
		if w := ask(p, "GET", file, ""); w.Code != http.StatusNotFound && w.Code != http.StatusTemporaryRedirect &&
			w.Code != http.StatusMovedPermanently {
			t.Errorf("%s: status %d", file, w.Code)
		}
	}
	for _, c := range [][2]string{{"POST", ""}, {"PUT", "images"}, {"POST", "start"}, {"GET", "images/0/masks"},
		{"POST", "images/0"}, {"DELETE", "start"}, {"POST", "images/0/pixels"}} {
		pagetest.Want(t, c[0]+" "+c[1], ask(p, c[0], c[1], "{}"), http.StatusMethodNotAllowed)
	}
}

// TestMask goes from an image file to its mask. It checks the shown and the saved mask, and that the image is encoded
// only once.
func TestMask(t *testing.T) {
	img := newFake()
	for i := range img.picture.Pix {
		img.picture.Pix[i] = byte(i)
		if i%4 == 3 {
			img.picture.Pix[i] = 255
		}
	}
	p := New(Options{Clicks: true, Open: func(_ context.Context, r io.Reader) (Image, error) {
		b, err := io.ReadAll(r)
		if string(b) != "file" {
			t.Errorf("the file is %q", b)
		}
		return img, err
	}})
	pagetest.Want(t, "start", ask(p, "GET", "start", ""), http.StatusOK, `"first":null`)
	pagetest.Want(t, "open", ask(p, "POST", "images", "file"), http.StatusOK, `{"number":1,"width":8,"height":6}`)
	if w := ask(p, "GET", "images/1/pixels", ""); !bytes.Equal(w.Body.Bytes(), img.picture.Pix) {
		t.Error("the pixels differ from the image")
	}
	for range 2 {
		pagetest.Want(t, "encode", ask(p, "POST", "images/1/encode", ""), http.StatusOK, `"seconds"`)
	}
	w := ask(p, "POST", "images/1/masks", `{"tab":"a","points":[[3,2]],"box":null,"mask":"best"}`)
	pagetest.Want(t, "mask", w, http.StatusOK)
	var got answer
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got.Runs) != "[0 3 5 3 37]" || got.Pixels != 6 || got.Mask != 2 || got.Quality[1] != nil ||
		*got.Quality[2] != 0.5 {
		t.Errorf("the answer is %s", w.Body)
	}
	file, err := png.Decode(ask(p, "POST", "images/1/file", `{"runs":[0,3,5,3,37],"save":"mask"}`).Body)
	cut, err2 := png.Decode(ask(p, "POST", "images/1/file", `{"runs":[0,3,5,3,37],"save":"cutout"}`).Body)
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for y := range 6 {
		for x := range 8 {
			inside := x < 3 && y < 2
			if v, _, _, _ := file.At(x, y).RGBA(); (v == 0xffff) != inside || v != 0 && !inside {
				t.Errorf("pixel %d,%d of the mask is %d", x, y, v)
			}
			if c := cut.(*image.NRGBA).NRGBAAt(x, y); inside && c != img.picture.NRGBAAt(x, y) || !inside &&
				c.A+c.R+c.G+c.B != 0 {
				t.Errorf("pixel %d,%d of the cut-out is %v", x, y, c)
			}
		}
	}
	if n := img.encodings.Load(); n != 1 {
		t.Errorf("the image was encoded %d times", n)
	}
}

// TestRefused checks requests that no page sends, and mistakes of users.
func TestRefused(t *testing.T) {
	img := newFake()
	var failed []error
	p := New(
		Options{First: img, Clicks: true, Failed: func(err error) { failed = append(failed, err) },
			Open: func(_ context.Context, r io.Reader) (Image, error) {
				_, err := imaging.Decode("the file", r, imaging.Limits{Pixels: 100})
				return nil, err
			}})
	for _, c := range []struct {
		body, text string
		status     int
	}{
		{`{"points":[[8,2]],"mask":"best"}`, "point 8,2: is outside the image", 422},
		{`{"points":[[-1,2]],"mask":"best"}`, "is outside the image", 422},
		{`{"box":[0,0,9,2],"mask":"best"}`, "box 0,0,9,2: is outside the image", 422},
		{`{"box":[3,3,3,4],"mask":"best"}`, "is empty", 422},
		{`{"box":[3,3],"mask":"best"}`, string(code.MaskPrompt), 422},
		{`{"points":[[1]],"mask":"best"}`, "point 0: is [1]", 422},
		{`{"points":[[1,2,3]],"mask":"best"}`, "allowed are [x,y]", 422},
		{`{"points":[[1e999,2]],"mask":"best"}`, "is not JSON", 422},
		{`{"points":[[1,1],[1,1],[1,1],[1,1],[1,1]],"mask":"best"}`, "the artifact allows 5 together", 422},
		{`{"mask":"best"}`, "no prompt", 422},
		{`{"points":[[1,2]],"mask":"4"}`, string(code.MaskChoice), 422},
		{`{"points":[[1,2]],"mask":"all"}`, string(code.MaskChoice), 422},
		{`{"points":[[1,2]]}`, string(code.MaskChoice), 422},
		{`{"points":[[1,2]],"mask":"best","else":1}`, "unknown field", 422},
		{`{"points":[[1,2]],"mask":"best"} {}`, "goes on", 422},
		{`{"points":`, "is not JSON", 422},
		{``, "is not JSON", 422},
		{`{"tab":"` + strings.Repeat("x", 65) + `","mask":"best"}`, "tab has 65 bytes", 422},
		{`{"tab":"` + strings.Repeat("x", maxPrompts) + `"}`, "more than 1 MB", 413},
	} {
		pagetest.Want(t, c.body[:min(len(c.body), 60)], ask(p, "POST", "images/0/masks", c.body), c.status, c.text)
	}
	for _, number := range []string{"1", "-1", "x", "99999999999999999999"} {
		pagetest.Want(t, "image "+number, ask(p, "POST", "images/"+number+"/masks", `{"points":[[1,2]],"mask":"best"}`),
			http.StatusGone, "open it again")
		pagetest.Want(t, "image "+number, ask(p, "GET", "images/"+number+"/pixels", ""), http.StatusGone)
		pagetest.Want(t, "image "+number, ask(p, "DELETE", "images/"+number, ""), http.StatusGone)
	}
	var large, small bytes.Buffer
	if err := errors.Join(png.Encode(&large, image.NewGray(image.Rect(0, 0, 11, 10))),
		png.Encode(&small, image.NewGray(image.Rect(0, 0, 5, 5)))); err != nil {
		t.Fatal(err)
	}
	pagetest.Want(t, "a large image", ask(p, "POST", "images", large.String()), 422, "11 x 10 pixels; 100 are allowed",
		"RLX3030")
	pagetest.Want(t, "a cut image", ask(p, "POST", "images", small.String()[:40]), 422, "the file: is damaged",
		"RLX3030")
	pagetest.Want(t, "a text", ask(p, "POST", "images", "hello"), 422, "allowed are PNG, JPEG, WebP")
	pagetest.Want(t, "nothing", ask(p, "POST", "images", ""), 422, "allowed are PNG, JPEG, WebP")
	if len(failed) != 0 {
		t.Errorf("mistakes of users are reported as failures: %v", failed)
	}
	img.err = diag.New(diag.Internal, "backend", "is lost")
	pagetest.Want(t, "a failure", ask(p, "POST", "images/0/masks", `{"points":[[1,2]],"mask":"best"}`), 500,
		"backend: is lost",
		"RLX9001")
	if len(failed) != 1 || !errors.Is(failed[0], diag.Internal) {
		t.Errorf("failures: %v", failed)
	}
}

// endless is a file that never ends.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) { e.read += len(b); return len(b), nil }

// TestLongFile checks that reading a file that is too long stops after MaxFile bytes.
func TestLongFile(t *testing.T) {
	p := New(Options{Clicks: true, Open: func(_ context.Context, r io.Reader) (Image, error) {
		_, err := io.Copy(io.Discard, r)
		return nil, diag.New(code.Image, "the file", "cannot be read: %w", err)
	}})
	file := &endless{}
	w := ask(p, "POST", "images", "", func(r *http.Request) { r.Body = io.NopCloser(file) })
	pagetest.Want(t, "a long file", w, http.StatusRequestEntityTooLarge, "more than 256 MB")
	if file.read > MaxFile+1<<20 {
		t.Errorf("%d bytes were read", file.read)
	}
}

// TestImagesAreClosed checks that the most recently used images stay open, and the first image always.
func TestImagesAreClosed(t *testing.T) {
	first, all := newFake(), []*fake{}
	p := New(Options{First: first, Open: func(context.Context, io.Reader) (Image, error) {
		all = append(all, newFake())
		return all[len(all)-1], nil
	}})
	for i := range maxImages + 1 {
		if i == maxImages {
			pagetest.Want(t, "use of 1", ask(p, "GET", "images/1/pixels", ""), http.StatusOK)
		}
		pagetest.Want(t, "open", ask(p, "POST", "images", ""), http.StatusOK)
	}
	pagetest.Want(t, "the oldest", ask(p, "GET", "images/2/pixels", ""), http.StatusGone, "the last 4")
	pagetest.Want(t, "one that was used", ask(p, "GET", "images/1/pixels", ""), http.StatusOK)
	pagetest.Want(t, "the first", ask(p, "GET", "images/0/pixels", ""), http.StatusOK)
	pagetest.Want(t, "close", ask(p, "DELETE", "images/3", ""), http.StatusNoContent)
	pagetest.Want(t, "closed", ask(p, "GET", "images/3/pixels", ""), http.StatusGone)
	pagetest.Want(t, "close the first", ask(p, "DELETE", "images/0", ""), http.StatusNoContent)
	pagetest.Want(t, "the first", ask(p, "GET", "images/0/pixels", ""), http.StatusOK)
	for i, n := range []int32{0, 1, 1, 0, 0} {
		if got := all[i].closed.Load(); got != n {
			t.Errorf("image %d was closed %d times; want %d", i+1, got, n)
		}
	}
	if first.closed.Load() != 0 {
		t.Error("the first image was closed")
	}
}

// FuzzQuestion checks that every request gives prompts of the right length, or an error.
func FuzzQuestion(f *testing.F) {
	for _, s := range []string{`{"tab":"a","points":[[3,2],[1,1,0]],"box":null,"mask":"best"}`,
		`{"box":[1,2,3,4],"mask":"1"}`, `{"points":[[1e999]]}`, `{}{}`, `[`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var q question
		p, err := q.read(strings.NewReader(s))
		if _, ok := diag.CodeOf(err); err != nil && !ok {
			t.Errorf("an error without a code: %v", err)
		}
		if err == nil && (len(p.Points) != len(q.Points) || (p.Box != nil) != (len(q.Box) == 4)) {
			t.Errorf("%q gives %+v", s, p)
		}
	})
}
