package segmentpage

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/localpage"
	"github.com/rlx-go/rlx/segment"
)

// about answers the first request of the page: what to show.
type about struct {
	Model     string    `json:"model"`
	Clicks    bool      `json:"clicks"`
	Best      [2]int    `json:"best"`
	Concepts  *Concepts `json:"concepts"` // null if the model takes no texts
	Grid      int       `json:"grid"`     // points of everything in each direction
	MaxFile   int       `json:"max_file"`
	First     *picture  `json:"first"` // null without a first image
	FirstName string    `json:"first_name"`
}

// picture describes an opened image.
type picture struct {
	Number int `json:"number"`
	Width  int `json:"width"`
	Height int `json:"height"`
}

func (s *shown) picture() *picture {
	size := s.Picture().Rect.Size()
	return &picture{s.number, size.X, size.Y}
}

func (p *Page) start(w http.ResponseWriter, r *http.Request) {
	a := about{Model: p.Model, Clicks: p.Clicks, Best: p.Best, Concepts: p.Concepts, Grid: gridSide, MaxFile: MaxFile,
		FirstName: p.FirstName}
	if p.First != nil {
		a.First = (&shown{Image: p.First}).picture()
	}
	localpage.Reply(w, http.StatusOK, a)
}

// open reads the image file in the request's body.
func (p *Page) open(w http.ResponseWriter, r *http.Request) {
	body := http.MaxBytesReader(w, r.Body, MaxFile)
	img, err := p.Open(r.Context(), body)
	if err != nil {
		io.Copy(io.Discard, body) // browsers do not read the answer before they have sent everything
		p.Fail(w, r, err)
		return
	}
	localpage.Reply(w, http.StatusOK, p.add(img).picture())
}

// image returns the image in the request's path. If it no longer exists, it answers the request and returns nil.
func (p *Page) image(w http.ResponseWriter, r *http.Request) *shown {
	n, err := strconv.Atoi(r.PathValue("number"))
	if err == nil {
		if s := p.find(n); s != nil {
			return s
		}
	}
	localpage.Reply(
		w, http.StatusGone,
		localpage.Failure{Code: string(diag.Usage),
			Error: fmt.Sprintf("the image is closed: the program keeps the last %d; open it again", maxImages)})
	return nil
}

func (p *Page) drop(w http.ResponseWriter, r *http.Request) {
	if s := p.image(w, r); s != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.number != 0 {
			p.remove(s)
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// pixels answers with the image as the model sees it, whatever a browser would make of the file: 4 bytes per pixel, R,
// G, B and 255.
func (p *Page) pixels(w http.ResponseWriter, r *http.Request) {
	if s := p.image(w, r); s != nil {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(s.Picture().Pix)))
		w.Write(s.Picture().Pix)
	}
}

// encode answers when the image is encoded.
func (p *Page) encode(w http.ResponseWriter, r *http.Request) {
	s := p.image(w, r)
	if s == nil {
		return
	}
	begun := time.Now()
	err := p.Enter(r.Context(), "")
	if err == nil {
		defer p.Leave()
		err = s.ready(r)
	}
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	localpage.Reply(w, http.StatusOK, map[string]float64{"seconds": time.Since(begun).Seconds()})
}

// ready encodes an image unless it is already encoded. The caller has entered the queue.
func (s *shown) ready(r *http.Request) error {
	if s.encoded {
		return nil
	}
	err := s.Encode(r.Context())
	s.encoded = err == nil
	return err
}

// question is a request for a mask. Coordinates are in pixels of the image.
type question struct {
	Tab    string      `json:"tab"`    // unique name of the tab
	Points [][]float64 `json:"points"` // [x,y] or [x,y,1] for a point on the object, [x,y,0] for one outside
	Box    []float64   `json:"box"`    // [x0,y0,x1,y1], or empty
	Mask   string      `json:"mask"`   // "best" or the number of a mask
}

// answer is the mask for a question.
type answer struct {
	Mask    int        `json:"mask"`    // number of the mask
	Quality []*float32 `json:"quality"` // predicted quality of each mask of the model; null for NaN
	drawing
	Seconds float64 `json:"seconds"` // including the time in the queue
}

// read parses a question and checks everything that does not depend on the image.
func (q *question) read(body io.Reader) (out segment.Prompts, err error) {
	if err := localpage.ReadJSON(body, q); err != nil {
		return out, err
	}
	if err := localpage.CheckTab(q.Tab); err != nil {
		return out, err
	}
	switch q.Mask {
	case "":
		return out, diag.New(code.MaskChoice, "mask", "is missing; allowed are best and the number of a mask")
	case string(segment.All):
		return out, diag.New(code.MaskChoice, "mask", "is all; the page shows one")
	}
	for i, v := range q.Points {
		if len(v) != 2 && (len(v) != 3 || v[2] != 0 && v[2] != 1) {
			return out,
				diag.New(code.MaskPrompt, fmt.Sprintf("point %d", i), "is %v; allowed are [x,y], [x,y,1] and [x,y,0]",
					v)
		}
		out.Points = append(out.Points, segment.Point{X: v[0], Y: v[1], Foreground: len(v) == 2 || v[2] == 1})
	}
	switch b := q.Box; len(b) {
	case 0:
	case 4:
		out.Box = &segment.Box{X0: b[0], Y0: b[1], X1: b[2], Y1: b[3]}
	default:
		return out, diag.New(code.MaskPrompt, "box", "is %v; allowed is [x0,y0,x1,y1]", b)
	}
	return out, nil
}

// masks answers with the mask for prompts.
func (p *Page) masks(w http.ResponseWriter, r *http.Request) {
	begun := time.Now()
	s := p.image(w, r)
	if s == nil {
		return
	}
	var q question
	prompts, err := q.read(http.MaxBytesReader(w, r.Body, maxPrompts))
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	mask, quality, err := p.run(s, r, prompts, segment.Choice(q.Mask), q.Tab)
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	a := answer{Mask: mask.Token, Quality: make([]*float32, len(quality)), drawing: draw(mask.Image)}
	for i, v := range quality {
		a.Quality[i] = finite(v)
	}
	a.Seconds = time.Since(begun).Seconds()
	localpage.Reply(w, http.StatusOK, a)
}

// finite returns nil for a number that JSON lacks.
func finite(v float32) *float32 {
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return nil
	}
	return &v
}

// run waits for the model and finds the mask.
func (p *Page) run(s *shown, r *http.Request, prompts segment.Prompts, which segment.Choice, tab string) (
	mask segment.Mask, quality []float32, err error) {
	if err := p.Enter(r.Context(), tab); err != nil {
		return mask, nil, err
	}
	defer p.Leave()
	if err := s.ready(r); err != nil {
		return mask, nil, err
	}
	return s.Masks(r.Context(), prompts, which)
}
