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
	"testing"

	"github.com/rlx-go/rlx/internal/localpage/pagetest"
)

// opened returns a page that shows an image with number 0.
func opened() (*Page, *fake) {
	f := newFake()
	return New(Options{First: f, Open: func(context.Context, io.Reader) (Image, error) { return newFake(), nil }}), f
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
		{"name": "Large/dog", "points": [[6,4]], "box": [], "mask": "best"},
		{"name": "..", "points": [[2,3,1]], "box": [], "mask": "2"}]}`)
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
		`{"image": "a", "objects": []}`: "has 0 objects",
		`{"image": "a", "objects": [{"name": "x", "points": [[1,2]], "mask": "all"}]}`:   "allowed are best",
		`{"image": "a", "objects": [{"name": "x", "points": [[1]], "mask": "best"}]}`:    "point 0",
		`{"image": "a", "objects": [{"name": "x", "points": [[99,2]], "mask": "best"}]}`: "outside the image",
		`{"image": "a", "more": 1}`: "not JSON as the page sends it",
	} {
		pagetest.Want(t, body, ask(p, "POST", "images/0/export", body), http.StatusUnprocessableEntity, want)
	}
}
