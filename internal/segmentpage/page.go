// Package segmentpage is a page for a browser on the same machine: it shows an image, and a click in it shows the mask of what is there.
//
// The page is for one user. Its URL has a random token, and requests that name another host than this machine, or come from another
// page, are refused: a page of the internet that the same browser shows can neither read images nor use the model.
package segmentpage

import (
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"path"
	"strconv"
	"sync"
	"time"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/core/task/segment"
)

//go:embed static
var static embed.FS

// The largest bodies of requests, in bytes.
const (
	MaxImage  = 256 << 20 // of an image file
	maxPrompt = 1 << 20
)

// An Image is one that the model has encoded. Masks may be called from several goroutines, also after Close.
type Image interface {
	Size() image.Point
	Masks(ctx context.Context, p segment.Prompts, which string) ([]segment.Mask, error)
	Close() // it is no longer shown
}

// Options of a page.
type Options struct {
	// Open decodes and encodes an image file. An error with a code is shown to the user.
	Open func(ctx context.Context, file io.Reader) (Image, error)
	// First is an image file that the page shows when it is opened; nil for none.
	First []byte
	// Masks is how many masks the model gives for a prompt.
	Masks int
	// Failed, if not nil, is told of errors of Open and Masks that are not the user's.
	Failed func(error)
}

// Page answers the requests of a browser. It is an http.Handler.
type Page struct {
	Options
	token string
	mux   *http.ServeMux

	mu    sync.Mutex
	shown Image // nil before the first
	id    int   // of the image that is shown
}

// New makes a page with a token of its own.
func New(o Options) *Page {
	p := &Page{Options: o, token: rand.Text(), mux: http.NewServeMux()}
	root := "/" + p.token + "/"
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic("BUG: segmentpage: " + err.Error())
	}
	p.mux.HandleFunc("GET "+root+"{file...}", func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, files) })
	p.mux.HandleFunc("GET "+root+"first", p.first)
	p.mux.HandleFunc("POST "+root+"image", p.image)
	p.mux.HandleFunc("POST "+root+"mask", p.mask)
	return p
}

// URL is the address of the page on a server that listens at addr.
func (p *Page) URL(addr net.Addr) string { return "http://" + addr.String() + "/" + p.token + "/" }

// Close closes the image that is shown.
func (p *Page) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown != nil {
		p.shown.Close()
		p.shown = nil
	}
}

// ServeHTTP answers requests of pages of this handler, to this machine.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'self'; img-src 'self' blob: data:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer") // the token is in the URL
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	switch {
	case !local(r.Host):
		http.Error(w, "this page is for localhost only", http.StatusForbidden)
	case !sameOrigin(r):
		http.Error(w, "this page does not answer other pages", http.StatusForbidden)
	default:
		p.mux.ServeHTTP(w, r)
	}
}

// local reports whether a Host header names this machine, by a loopback address or as localhost. A name of the internet may lead to this
// machine too (DNS rebinding), so it is the name that counts.
func local(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	if name == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// sameOrigin reports whether a request comes from a page of this handler, from the address bar, or from no browser.
func sameOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return false
	}
	origin := r.Header.Get("Origin")
	return origin == "" || origin == "http://"+r.Host
}

func serveFile(w http.ResponseWriter, r *http.Request, files fs.FS) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	b, err := fs.ReadFile(files, name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	w.Write(b)
}

// first gives the file that the page begins with, or status 204.
func (p *Page) first(w http.ResponseWriter, r *http.Request) {
	if p.First == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", http.DetectContentType(p.First))
	w.Write(p.First)
}

// opened is the answer to a POST of an image.
type opened struct {
	ID      int     `json:"id"`
	Width   int     `json:"width"`
	Height  int     `json:"height"`
	Masks   int     `json:"masks"`
	Seconds float64 `json:"seconds"`
}

// image encodes the image file of the body, which is then the one that is shown.
func (p *Page) image(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	img, err := p.Open(r.Context(), http.MaxBytesReader(w, r.Body, MaxImage))
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.mu.Lock()
	if p.shown != nil {
		p.shown.Close()
	}
	p.shown = img
	p.id++
	id := p.id
	p.mu.Unlock()
	size := img.Size()
	reply(w, http.StatusOK, opened{id, size.X, size.Y, p.Masks, time.Since(begun).Seconds()})
}

// request is the body of a POST of prompts. Coordinates are pixels of the image.
type request struct {
	ID     int          `json:"id"`     // of the image
	Points [][3]float64 `json:"points"` // x, y, and 1 for what is meant or 0 for what is not
	Box    []float64    `json:"box"`    // x0, y0, x1, y1; or empty
	Mask   string       `json:"mask"`   // best, or a number
	Save   bool         `json:"save"`   // as a file: 8 bits, 255 inside and 0 outside; otherwise 1 bit, transparent outside
}

// prompts are those of the request.
func (q request) prompts() (segment.Prompts, error) {
	var out segment.Prompts
	for _, v := range q.Points {
		out.Points = append(out.Points, segment.Point{X: v[0], Y: v[1], Foreground: v[2] != 0})
	}
	switch len(q.Box) {
	case 0:
	case 4:
		out.Box = &segment.Box{X0: q.Box[0], Y0: q.Box[1], X1: q.Box[2], Y1: q.Box[3]}
	default:
		return out, diag.New(segment.CodePrompt, "box", "has %d numbers; want x0, y0, x1, y1", len(q.Box))
	}
	return out, nil
}

// mask answers with the mask of prompts as a PNG file.
func (p *Page) mask(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	var q request
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxPrompt)).Decode(&q); err != nil {
		reply(w, http.StatusBadRequest, failure{Error: "the request is not what the page sends: " + err.Error()})
		return
	}
	p.mu.Lock()
	img, id := p.shown, p.id
	p.mu.Unlock()
	if img == nil || q.ID != id {
		reply(w, http.StatusGone, failure{Error: "another window has opened another image; open this one again"})
		return
	}
	prompts, err := q.prompts()
	if err == nil && q.Mask == segment.MaskAll {
		err = diag.New(segment.CodeMask, "mask", "is %q; the page shows one", q.Mask)
	}
	var masks []segment.Mask
	if err == nil {
		masks, err = img.Masks(r.Context(), prompts, q.Mask)
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	var picture image.Image = masks[0].Image
	if !q.Save {
		picture = transparent(masks[0].Image)
	}
	var b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, picture); err != nil {
		p.fail(w, r, fmt.Errorf("the mask as PNG: %w", err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "image/png")
	h.Set("Mask-Quality", strconv.FormatFloat(float64(masks[0].IoU), 'g', 4, 32))
	h.Set("Mask-Number", strconv.Itoa(masks[0].Token))
	h.Set("Mask-Milliseconds", strconv.FormatInt(time.Since(begun).Milliseconds(), 10))
	w.Write(b.Bytes())
}

// transparent is a mask of one bit for each pixel: opaque inside.
func transparent(m *image.Gray) *image.Paletted {
	out := image.NewPaletted(m.Rect, color.Palette{color.Transparent, color.White})
	for i, v := range m.Pix {
		if v != 0 {
			out.Pix[i] = 1
		}
	}
	return out
}

// failure is the answer to a request that failed.
type failure struct {
	Error string `json:"error"`
	Code  string `json:"code,omitempty"`
}

// fail answers with an error. Those of classes 2 and 3 are about what the user gave.
func (p *Page) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody waits for an answer
	}
	f, status := failure{Error: err.Error()}, http.StatusInternalServerError
	if e, ok := errors.AsType[*diag.Error](err); ok {
		f.Code = string(e.Code)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		f.Error, status = fmt.Sprintf("the image file is larger than %d MB", MaxImage>>20), http.StatusRequestEntityTooLarge
	} else if errors.Is(err, diag.Class(2)) || errors.Is(err, diag.Class(3)) || errors.Is(err, diag.Class(8)) {
		status = http.StatusUnprocessableEntity
	} else if p.Failed != nil {
		p.Failed(err)
	}
	reply(w, status, f)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}
