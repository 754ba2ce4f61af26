// Package segmentpage serves a page for browsers on the same machine. The page shows an image; a click shows the mask
// of the object there.
//
// The page is for one user. Its URL contains a random token. It refuses requests whose Host is not this machine, and
// requests from other pages. So a website that is open in the same browser can neither read the images nor use the
// model.
package segmentpage

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"image"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/segment"
)

//go:embed static
var static embed.FS

// Limits on requests.
const (
	MaxFile   = 256 << 20 // bytes of an image file
	MaxPixels = 1 << 26   // pixels of an image; the browser needs 12 bytes for each

	maxPrompts = 1 << 20 // bytes of the JSON with prompts
	maxTab     = 64      // bytes of a tab's name
	maxImages  = 4       // number of images to keep besides Options.First: the most recently used
)

// An Image is an opened image file. Encode and Masks are never called concurrently, but may be called after Close.
type Image interface {
	Picture() *image.NRGBA            // the pixels to show, opaque, starting at (0,0)
	Encode(ctx context.Context) error // called before Masks, and again if it fails
	// Masks returns the mask of the object at p. which is segment.Best or the number of a mask. quality has the
	// predicted quality of each mask of the model.
	Masks(ctx context.Context, p segment.Prompts, which segment.Choice) (mask segment.Mask, quality []float32,
		err error)
	Close() // called when no page shows the image any more
}

// Options configure a page.
type Options struct {
	Model string // name of the model, for the page
	Best  [2]int // numbers of the first and last mask that the user can choose
	// Open reads an image file of at most MaxPixels. Errors about the file are *diag.Error.
	Open func(ctx context.Context, file io.Reader) (Image, error)
	// First is the image that the page shows first, or nil. Page does not close it.
	First     Image
	FirstName string // file name of First
	// Failed, if not nil, is called with errors that the user did not cause, such as those of the backend.
	Failed func(error)
}

// Page answers the requests of a browser. It is an http.Handler.
type Page struct {
	Options
	token string
	mux   *http.ServeMux
	queue queue

	mu     sync.Mutex
	opened int      // number of images so far, which is also the number of the last one; Options.First has number 0
	images []*shown // the most recently used comes last
}

// shown is an image that a page shows.
type shown struct {
	Image
	number  int
	encoded bool // guarded by Page.queue
}

// New returns a page with a new token.
func New(o Options) *Page {
	p := &Page{Options: o, token: rand.Text(), mux: http.NewServeMux(), queue: newQueue()}
	if o.First != nil {
		p.images = []*shown{{Image: o.First}}
	}
	p.mux.HandleFunc("GET /{file}", serveFile)
	p.mux.HandleFunc("GET /{$}", serveFile)
	p.mux.HandleFunc("GET /start", p.start)
	p.mux.HandleFunc("POST /images", p.open)
	p.mux.HandleFunc("DELETE /images/{number}", p.drop)
	p.mux.HandleFunc("GET /images/{number}/pixels", p.pixels)
	p.mux.HandleFunc("POST /images/{number}/encode", p.encode)
	p.mux.HandleFunc("POST /images/{number}/masks", p.masks)
	return p
}

// URL returns the address of the page on a server that listens at addr.
func (p *Page) URL(addr net.Addr) string { return "http://" + addr.String() + "/" + p.token + "/" }

// ServeHTTP answers requests with the token that come from the page itself or from the address bar.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy",
		"default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer") // because the token is in the URL
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	refuse := func(why string) {
		h.Set("Connection", "close")
		reply(w, http.StatusForbidden, failure{Error: why, Code: string(diag.Usage)})
	}
	token, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case !isLocal(r.Host):
		refuse("this page is for this machine only: its address begins with http://127.0.0.1 or http://localhost")
	case !isOwn(r):
		refuse("this page answers no other pages: copy its address into the address bar")
	case !ok || subtle.ConstantTimeCompare([]byte(token), []byte(p.token)) == 0:
		refuse("the address lacks the token of this program: use the address that rlxrun has printed")
	default:
		trust(r)
		in := *r.URL
		in.Path, in.RawPath = "/"+rest, ""
		inner := r.WithContext(r.Context())
		inner.URL = &in
		p.mux.ServeHTTP(w, inner)
	}
}

// isLocal reports whether a Host header names this machine by a loopback address or as localhost. It checks the name,
// because any other name can be made to resolve to this machine (DNS rebinding).
func isLocal(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	addr, err := netip.ParseAddr(strings.Trim(name, "[]"))
	return name == "localhost" || err == nil && addr.IsLoopback()
}

// isOwn reports whether a request comes from this page, from the address bar, or from a program that is not a browser.
func isOwn(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	return (site == "" || site == "same-origin" || site == "none") && (origin == "" || origin == "http://"+r.Host)
}

// types has the media types of the page's files. Package mime would use the system's table, which may differ.
var types = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8"}

func serveFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	b, err := static.ReadFile("static/" + name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", types[path.Ext(name)])
	w.Write(b)
}

// add stores an image and closes the least recently used ones if there are too many.
func (p *Page) add(img Image) *shown {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened++
	s := &shown{Image: img, number: p.opened}
	p.images = append(p.images, s)
	own := slices.DeleteFunc(slices.Clone(p.images), func(s *shown) bool { return s.number == 0 })
	if len(own) > maxImages {
		p.remove(own[0])
	}
	return s
}

// remove closes an image, unless it is closed already. The caller holds mu.
func (p *Page) remove(s *shown) {
	if i := slices.Index(p.images, s); i >= 0 {
		p.images = slices.Delete(p.images, i, i+1)
		s.Close()
	}
}

// find returns the image with a number and marks it as used. It returns nil if there is no such image.
func (p *Page) find(number int) *shown {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.images, func(s *shown) bool { return s.number == number })
	if i < 0 {
		return nil
	}
	s := p.images[i]
	p.images = append(slices.Delete(p.images, i, i+1), s)
	return s
}
