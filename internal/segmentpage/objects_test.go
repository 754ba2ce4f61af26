package segmentpage

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/png"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/localpage/pagetest"
	"github.com/rlx-go/rlx/segment"
)

// opened returns a page that shows an image with number 0.
func opened() (*Page, *fake) {
	f := newFake()
	return New(Options{First: f, Clicks: true, Concepts: &Concepts{Examples: 2, Threshold: 0.3},
		Open: func(context.Context, io.Reader) (Image, error) { return newFake(), nil }}), f
}

func TestEverything(t *testing.T) {
	p, f := opened()
	w := ask(p, "POST", "images/0/everything", "")
	pagetest.Want(t, "everything", w, http.StatusOK,
		`"mask":1,"quality":[null,0.75],"pixels":24,"runs":[0,4,4,4,4,4,4,4,4,4,4,4,4],`, `"point":[16,2]`,
		`"quality":[null,null,null],"pixels":1,"runs":[0,1,47]`)
	if f.encodings.Load() != 1 {
		t.Error("the image was not encoded")
	}
	f.err = io.ErrUnexpectedEOF
	pagetest.Want(t, "an error", ask(p, "POST", "images/0/everything", ""), http.StatusInternalServerError)
	pagetest.Want(t, "no image", ask(p, "POST", "images/7/everything", ""), http.StatusGone)
}

func TestExport(t *testing.T) {
	p, _ := opened()
	w := ask(p, "POST", "images/0/export", `{"image": "a.png", "objects": [
		{"name": "Large/dog", "runs": [0,6,2,6,2,6,2,6,18], "score": 0.5},
		{"name": "..", "runs": [0,2,6,2,6,2,30], "score": null}]}`)
	pagetest.Want(t, "export", w, http.StatusOK)
	z, err := zip.NewReader(bytes.NewReader(w.Body.Bytes()), int64(w.Body.Len()))
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		t.Helper()
		f, err := z.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if len(z.File) != 4 {
		t.Errorf("%d files", len(z.File))
	}
	mask, err := png.Decode(bytes.NewReader(read("001-Large-dog.png")))
	if err != nil || mask.(*image.Gray).GrayAt(5, 3).Y != 255 || mask.(*image.Gray).GrayAt(6, 3).Y != 0 {
		t.Errorf("mask %v, %v", mask, err)
	}
	read("002.png")
	labels, err := png.Decode(bytes.NewReader(read("labels.png")))
	if err != nil {
		t.Fatal(err)
	}
	l := labels.(*image.Paletted)
	if l.ColorIndexAt(0, 0) != 2 || l.ColorIndexAt(1, 2) != 2 || l.ColorIndexAt(2, 2) != 1 ||
		l.ColorIndexAt(7, 5) != 0 {
		t.Errorf("labels %v", l.Pix)
	}
	var file struct {
		Images      []map[string]any
		Annotations []struct {
			Name string
			Area int
			BBox []int
		}
	}
	if err := json.Unmarshal(read("coco.json"), &file); err != nil || len(file.Annotations) != 2 ||
		file.Annotations[0].Name != "Large/dog" || file.Annotations[0].Area != 24 || file.Annotations[1].BBox[3] != 3 ||
		file.Images[0]["file_name"] != "a.png" {
		t.Errorf("%+v, %v", file, err)
	}
	for body, want := range map[string]string{
		`{"image": "a", "objects": []}`:                                            "has 0 objects",
		`{"image": "a", "objects": [{"name": "x", "runs": [0,1]}]}`:                "add up to 1; the image has 48 pixels",
		`{"image": "a", "objects": [{"name": "x", "runs": [0,50,-2]}]}`:            "run 1 of a mask is 50, and 48 pixels",
		`{"image": "a", "objects": [{"name": "x", "runs": [49,-1]}]}`:              "run 0 of a mask is 49",
		`{"image": "a", "objects": [{"name": "x", "runs": [9,-1,40]}]}`:            "run 1 of a mask is -1",
		`{"image": "a", "objects": [{"name": "x", "runs": [1e99]}]}`:               "not JSON as the page sends it",
		`{"image": "a", "objects": [{"name": "x"}]}`:                               "add up to 0",
		`{"image": "a", "more": 1}`:                                                "not JSON as the page sends it",
		`{"image": "a", "objects": [` + strings.Repeat("{},", maxObjects) + `{}]}`: "has 1001 objects",
	} {
		pagetest.Want(t, body[:min(len(body), 80)], ask(p, "POST", "images/0/export", body),
			http.StatusUnprocessableEntity, want)
	}
	for body, want := range map[string]string{
		`{"runs": [48], "save": "all"}`:  `save is \"all\"; allowed are mask and cutout`,
		`{"runs": [47], "save": "mask"}`: "add up to 47",
	} {
		pagetest.Want(t, body, ask(p, "POST", "images/0/file", body), http.StatusUnprocessableEntity, want)
	}
}

// TestSearch checks what a search sends to the model and what the page gets.
func TestSearch(t *testing.T) {
	p, f := opened()
	w := ask(p, "POST", "images/0/search",
		`{"text": "a coin", "examples": [[1,2,3,4,1],[0,0,8,6,0]], "threshold": 0.25}`)
	pagetest.Want(t, "search", w, http.StatusOK, `"objects":[{"score":0.75,"box":[-1,0,4,6.5],"pixels":24,`,
		`"runs":[0,4,4,4,4,4,4,4,4,4,4,4,4]`, `"closest":0.125`, `"seconds"`)
	want := segment.Concept{Text: "a coin", Examples: []segment.Example{{Box: segment.Box{X0: 1, Y0: 2, X1: 3, Y1: 4}},
		{Box: segment.Box{X1: 8, Y1: 6}, Negative: true}}}
	if !reflect.DeepEqual(f.concept, want) || f.threshold != 0.25 {
		t.Errorf("the model gets %+v above %v", f.concept, f.threshold)
	}
	if f.encodings.Load() != 1 {
		t.Error("the image was not encoded")
	}
	for body, want := range map[string]string{
		`{"text": "x", "examples": [[1,2,3,4]]}`:   "example 0: is [1 2 3 4]; allowed are [x0,y0,x1,y1,1]",
		`{"text": "x", "examples": [[1,2,3,4,2]]}`: "example 0",
		`{"text": 1}`:                "not JSON as the page sends it",
		`{"text": "x", "points": 1}`: "unknown field",
	} {
		pagetest.Want(t, body, ask(p, "POST", "images/0/search", body), http.StatusUnprocessableEntity, want)
	}
	pagetest.Want(t, "no image", ask(p, "POST", "images/7/search", `{"text": "x"}`), http.StatusGone)
	f.err = diag.New(code.MaskPrompt, "text", "has 40 tokens")
	pagetest.Want(t, "an error", ask(p, "POST", "images/0/search", `{"text": "x"}`), http.StatusUnprocessableEntity,
		"has 40 tokens", string(code.MaskPrompt))
}

// TestOffers checks that a page does only what its model can.
func TestOffers(t *testing.T) {
	clicks := New(Options{First: newFake(), Clicks: true, Best: [2]int{1, 3}})
	pagetest.Want(t, "start", ask(clicks, "GET", "start", ""), http.StatusOK,
		`"clicks":true,"best":[1,3],"concepts":null`)
	pagetest.Want(t, "no texts", ask(clicks, "POST", "images/0/search", `{"text": "x"}`), http.StatusNotFound)
	texts := New(Options{First: newFake(), Concepts: &Concepts{16, 0.3}})
	pagetest.Want(t, "start", ask(texts, "GET", "start", ""), http.StatusOK,
		`"clicks":false,"best":[0,0],"concepts":{"examples":16,"threshold":0.3}`)
	pagetest.Want(t, "no clicks", ask(texts, "POST", "images/0/masks", `{"points":[[1,2]],"mask":"best"}`),
		http.StatusNotFound)
}
