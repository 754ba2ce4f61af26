// Package segmentpage serves a page for browsers on the same machine (package localpage). The page shows an image. A
// click shows the mask of the object there, and a text finds all objects that it describes, as far as the model takes
// clicks and texts.
package segmentpage

import (
	"context"
	"embed"
	"image"
	"io"
	"slices"
	"sync"

	"github.com/rlx-go/rlx/internal/localpage"
	"github.com/rlx-go/rlx/segment"
)

//go:embed static
var static embed.FS

// Limits on requests.
const (
	MaxFile   = 256 << 20 // bytes of an image file
	MaxPixels = 1 << 26   // pixels of an image; the browser needs 12 bytes for each

	maxPrompts = 1 << 20 // bytes of the JSON with prompts
	maxRuns    = 1 << 24 // bytes of the JSON with masks as run lengths
	maxObjects = 1000    // that an export may have, and that everything and a search show
	gridSide   = 16      // points of the grid in each direction for everything
	maxImages  = 4       // number of images to keep besides Options.First: the most recently used
)

// An Image is an opened image file. Encode, Masks, Everything and Find are never called concurrently, but may be called
// after Close.
type Image interface {
	Picture() *image.NRGBA            // the pixels to show, opaque, starting at (0,0)
	Encode(ctx context.Context) error // called before the methods below, and again if it fails
	Close()                           // called when no page shows the image any more
	Clicks
	Searches
}

// Clicks is what an Image does if Options has Clicks.
type Clicks interface {
	// Masks returns the mask of the object at p. which is segment.Best or the number of a mask. quality has the
	// predicted quality of each mask of the model.
	Masks(ctx context.Context, p segment.Prompts, which segment.Choice) (mask segment.Mask, quality []float32,
		err error)
	// Everything finds all objects from a grid of side x side points. each is called with the mask of each region, the
	// last of the result's Regions first.
	Everything(ctx context.Context, side int, each func(mask *image.Gray) error) (*segment.Segmentation, error)
}

// Searches is what an Image does if Options has Concepts.
type Searches interface {
	// Find finds all objects that belong to a concept and score more than threshold.
	Find(ctx context.Context, c segment.Concept, threshold float64) (*segment.Found, error)
}

// Options configure a page.
type Options struct {
	Model    string    // name of the model, for the page
	Clicks   bool      // whether the model takes clicks and boxes as prompts
	Best     [2]int    // with Clicks: numbers of the first and last mask that the user can choose
	Concepts *Concepts // what a search takes; nil if the model has none
	// Open reads an image file of at most MaxPixels. Errors about the file are *diag.Error.
	Open func(ctx context.Context, file io.Reader) (Image, error)
	// First is the image that the page shows first, or nil. Page does not close it.
	First     Image
	FirstName string // file name of First
	// Failed, if not nil, is called with errors that the user did not cause, such as those of the backend.
	Failed func(error)
}

// Concepts describes searches.
type Concepts struct {
	Examples  int     `json:"examples"`  // most examples; 0 if the model takes none
	Threshold float64 `json:"threshold"` // the model's own
}

// Page answers the requests of a browser. It is an http.Handler.
type Page struct {
	*localpage.Page
	Options

	mu     sync.Mutex
	opened int      // number of images so far, and of the last one; Options.First has number 0
	images []*shown // the most recently used comes last
}

// shown is an image that a page shows.
type shown struct {
	Image
	number  int
	encoded bool // guarded by Page.Enter
}

// New returns a page with a new token.
func New(o Options) *Page {
	p := &Page{Page: localpage.New(static, o.Failed), Options: o}
	if o.First != nil {
		p.images = []*shown{{Image: o.First}}
	}
	p.HandleFunc("GET /start", p.start)
	p.HandleFunc("POST /images", p.open)
	p.HandleFunc("DELETE /images/{number}", p.drop)
	p.HandleFunc("GET /images/{number}/pixels", p.pixels)
	p.HandleFunc("POST /images/{number}/encode", p.encode)
	p.HandleFunc("POST /images/{number}/file", p.file)
	p.HandleFunc("POST /images/{number}/export", p.export)
	if o.Clicks {
		p.HandleFunc("POST /images/{number}/masks", p.masks)
		p.HandleFunc("POST /images/{number}/everything", p.everything)
	}
	if o.Concepts != nil {
		p.HandleFunc("POST /images/{number}/search", p.search)
	}
	return p
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
