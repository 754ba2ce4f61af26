package scenepage

import (
	"context"
	"errors"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/localpage"
	"github.com/rlx-go/rlx/internal/localpage/pagetest"
)

var addr = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8000}

// scene returns a page whose frames have one colour. cameras are the rendered cameras; fail is the next error.
func scene(t *testing.T) (p *Page, cameras *[]Camera, fail *error, failed *[]error) {
	cameras, fail, failed = new([]Camera), new(error), new([]error)
	return New(Options{Model: "tiny.rlx", Rest: "scale=2", Sizes: []image.Point{{40, 30}, {13, 10}}, Radius: 2,
		Camera: Camera{Pos: [3]float64{0, 0, -4}, Up: [3]float64{0, -1, 0}, FOV: 60},
		Render: func(_ context.Context, c Camera, size image.Point) (*image.RGBA, error) {
			*cameras = append(*cameras, c)
			img := image.NewRGBA(image.Rectangle{Max: size})
			for i := range size.X * size.Y {
				img.SetRGBA(i%size.X, i/size.X, color.RGBA{200, 100, 50, 255})
			}
			return img, *fail
		},
		Failed: func(err error) { *failed = append(*failed, err) }}), cameras, fail, failed
}

func ask(p *Page, method, path, body string) *httptest.ResponseRecorder {
	return pagetest.Ask(p, method, p.URL(addr), path, body)
}

const here = `"pos":[1,2,-3],"target":[0,0,0.1],"up":[0,-1,0],"fov":50`

// TestFrames checks the first answer, and frames of both sizes and formats.
func TestFrames(t *testing.T) {
	p, cameras, _, _ := scene(t)
	want := `{"model":"tiny.rlx","sizes":[[40,30],[13,10]],"camera":{"pos":[0,0,-4],"target":[0,0,0],"up":[0,-1,0],"fov":60},"rest":"scale=2","radius":2}`
	if w := ask(p, "GET", "start", ""); strings.TrimSpace(w.Body.String()) != want {
		t.Errorf("start is %s; want %s", w.Body, want)
	}
	w := ask(p, "POST", "frames", `{"tab":"a",`+here+`,"width":40,"format":"png"}`)
	img, err := png.Decode(w.Body)
	if err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "image/png" {
		t.Fatalf("status %d, %v, %v", w.Code, w.Header(), err)
	}
	colour := color.RGBAModel.Convert(img.At(39, 29))
	if img.Bounds() != image.Rect(0, 0, 40, 30) || colour != (color.RGBA{200, 100, 50, 255}) {
		t.Errorf("the frame has %v and %v", img.Bounds(), img.At(39, 29))
	}
	w = ask(p, "POST", "frames", `{`+here+`,"width":13,"format":"jpeg"}`)
	img, err = jpeg.Decode(w.Body)
	if err != nil || w.Header().Get("Content-Type") != "image/jpeg" || img.Bounds() != image.Rect(0, 0, 13, 10) {
		t.Errorf("status %d, %v, %v", w.Code, w.Header(), err)
	}
	at := Camera{Pos: [3]float64{1, 2, -3}, Target: [3]float64{2: float64(float32(0.1))}, Up: [3]float64{0, -1, 0},
		FOV: 50}
	if len(*cameras) != 2 || (*cameras)[0] != at || (*cameras)[1] != at {
		t.Errorf("cameras %v", *cameras)
	}
	for file, kind := range map[string]string{"": "text/html", "page.js": "text/javascript", "page.css": "text/css",
		"orbit.js": "text/javascript", "base.css": "text/css", "ask.js": "text/javascript",
		"picture.js": "text/javascript"} {
		w := ask(p, "GET", file, "")
		if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || !strings.HasPrefix(got, kind) {
			t.Errorf("%q: status %d, %s", file, w.Code, got)
		}
	}
	for _, c := range [][2]string{{"POST", "start"}, {"PUT", "frames"}} {
		if w := ask(p, c[0], c[1], ""); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%v: status %d", c, w.Code)
		}
	}
}

// TestRefused checks requests that the page does not send, and errors of the model.
func TestRefused(t *testing.T) {
	p, cameras, fail, failed := scene(t)
	const end = `,"width":40,"format":"png"}`
	for _, c := range []struct {
		body, text string
		status     int
	}{
		{``, "is not JSON", 422},
		{`{`, "is not JSON", 422},
		{`[]`, "is not JSON", 422},
		{`{}`, "pos has 0 numbers; want 3", 422},
		{`{` + here + end + `{}`, "goes on", 422},
		{`{` + here + `,"roll":1` + end, "unknown field", 422},
		{`{"pos":[1,2]` + end, "pos has 2 numbers", 422},
		{`{"pos":[1,2,3,4]` + end, "pos has 4 numbers", 422},
		{`{"pos":[1,2,"3"]` + end, "is not JSON", 422},
		{`{"pos":[1,2,3],"target":null` + end, "target has 0 numbers", 422},
		{`{"pos":[1e39,2,3]` + end, "pos has 1e+39", 422},
		{`{"pos":[1e999,2,3]` + end, "is not JSON", 422},
		{`{"pos":[1,2,-3],"target":[0,0,0],"up":[0,-1,0]` + end, "fov is missing", 422},
		{`{` + here + `,"width":40}`, `format is \"\"; allowed are png and jpeg`, 422},
		{`{` + here + `,"width":40,"format":"gif"}`, `format is \"gif\"`, 422},
		{`{` + here + `,"format":"png"}`, "width is 0; the artifact renders 40 and 13", 422},
		{`{` + here + `,"width":41,"format":"png"}`, "width is 41", 422},
		{`{` + here + `,"width":-1,"format":"png"}`, "width is -1", 422},
		{`{"tab":"` + strings.Repeat("x", 65) + `",` + here + end, "tab has 65 bytes", 422},
		{`{"tab":"` + strings.Repeat("x", maxRequest) + `"}`, "more than 1 MB", 413},
	} {
		w := ask(p, "POST", "frames", c.body)
		got := w.Body.String()
		if w.Code != c.status || !strings.Contains(got, c.text) || !strings.Contains(got, "RLX2001") {
			t.Errorf("%.60s: status %d, %s; want %q", c.body, w.Code, got, c.text)
		}
	}
	if len(*cameras) != 0 || len(*failed) != 0 {
		t.Errorf("rendered %v, failed %v", *cameras, *failed)
	}
	*fail = diag.New(diag.Usage, "camera", "is inside a wall")
	if w := ask(p, "POST", "frames", `{`+here+end); w.Code != 422 || len(*failed) != 0 {
		t.Errorf("status %d, failed %v", w.Code, *failed)
	}
	*fail = diag.New(diag.Internal, "backend", "is lost")
	if w := ask(p, "POST", "frames", `{`+here+end); w.Code != 500 || len(*failed) != 1 ||
		!errors.Is((*failed)[0], *fail) {
		t.Errorf("status %d, failed %v", w.Code, *failed)
	}
	*fail = nil
	if w := ask(p, "POST", "frames", `{`+here+end); w.Code != 200 {
		t.Errorf("afterwards: status %d", w.Code)
	}
}

// FuzzRequest checks that every request gives a camera of finite numbers, or an error with a code.
func FuzzRequest(f *testing.F) {
	f.Add(`{"tab":"a",` + here + `,"width":40,"format":"png"}`)
	f.Add(`{"pos":[1e38,-1e-45,3],"target":[1],"fov":-1}`)
	f.Add(`{}{}`)
	f.Fuzz(func(t *testing.T, s string) {
		var q request
		var c Camera
		err := localpage.ReadJSON(strings.NewReader(s), &q)
		if err == nil {
			c, _, err = q.read([]image.Point{{40, 30}})
		}
		if _, ok := diag.CodeOf(err); err != nil && !ok {
			t.Errorf("an error without a code: %v", err)
		}
		for _, v := range [][3]float64{c.Pos, c.Target, c.Up} {
			for _, x := range v {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					t.Errorf("%q gives %v", s, c)
				}
			}
		}
	})
}
