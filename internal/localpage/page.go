// Package localpage serves pages for browsers on the same machine or, if the user says so, on others. Packages
// segmentpage and scenepage are such pages.
//
// A page is for one user. Its URL contains a random token. It refuses requests whose Host is not this machine, and
// requests from other pages. So a website that is open in the same browser can neither read what a page shows nor use
// the model.
package localpage

import (
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/core/diag"
)

// shared has files that every page may use: base.css, ask.js and picture.js.
//
//go:embed static
var shared embed.FS

// Page answers the requests of a browser. It is an http.Handler.
type Page struct {
	token  string
	mux    *http.ServeMux
	files  []fs.FS
	queue  queue
	failed func(error)
	others []string // names of this machine for others; nil if they may not connect
}

// New returns a page with a new token. It serves the folder static of files, where index.html is the page itself.
// failed, if not nil, is called with errors that the user did not cause, such as those of the backend.
func New(files fs.FS, failed func(error)) *Page {
	p := &Page{token: rand.Text(), mux: http.NewServeMux(), files: []fs.FS{files, shared}, queue: newQueue(),
		failed: failed}
	p.mux.HandleFunc("GET /{file}", p.serveFile)
	p.mux.HandleFunc("GET /{$}", p.serveFile)
	return p
}

// HandleFunc makes f answer requests that match a pattern of http.ServeMux, such as "POST /masks". Paths are without
// the token.
func (p *Page) HandleFunc(pattern string, f http.HandlerFunc) { p.mux.HandleFunc(pattern, f) }

// LetIn makes the page answer other machines, too, which address this one by an IP address or by one of names. They
// need the token. Call it before Serve.
func (p *Page) LetIn(names ...string) { p.others = append([]string{}, names...) }

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
		Reply(w, http.StatusForbidden, Failure{Error: why, Code: string(diag.Usage)})
	}
	token, rest, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case p.others != nil && !IsLocal(r.Host) && !p.names(r.Host):
		refuse("this page is not at that address: use the one that rlxrun has printed, or an IP address")
	case p.others == nil && !IsLocal(r.Host):
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

// names reports whether a Host header names this machine for others.
func (p *Page) names(host string) bool {
	name := nameOf(host)
	_, err := netip.ParseAddr(name)
	return err == nil || slices.ContainsFunc(p.others, func(n string) bool { return strings.EqualFold(n, name) })
}

// nameOf returns the name or address in a Host header, without the port.
func nameOf(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.Trim(host, "[]")
}

// IsLocal reports whether a Host header names this machine by a loopback address or as localhost. It checks the name,
// because any other name can be made to resolve to this machine (DNS rebinding).
func IsLocal(host string) bool {
	name := nameOf(host)
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.IsLoopback()
}

// isOwn reports whether a request comes from this page, from the address bar, or from a program that is not a browser.
func isOwn(r *http.Request) bool {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	scheme := "http://"
	if r.TLS != nil {
		scheme = "https://"
	}
	return (site == "" || site == "same-origin" || site == "none") && (origin == "" || origin == scheme+r.Host)
}

// types has the media types of the page's files. Package mime would use the system's table, which may differ.
var types = map[string]string{".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8"}

func (p *Page) serveFile(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("file")
	if name == "" {
		name = "index.html"
	}
	for _, files := range p.files {
		if b, err := fs.ReadFile(files, "static/"+name); err == nil {
			w.Header().Set("Content-Type", types[path.Ext(name)])
			w.Write(b)
			return
		}
	}
	http.NotFound(w, r)
}
