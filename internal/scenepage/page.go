// Package scenepage serves a page for browsers on the same machine (package localpage). The page shows a scene from any
// side: mouse, fingers and keys move the camera, and each frame is a picture that the program renders.
package scenepage

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/rlx-go/rlx/internal/localpage"
)

//go:embed static
var static embed.FS

// maxRequest is the largest number of bytes of the JSON that asks for a frame.
const maxRequest = 1 << 20

// quality is the quality of JPEG frames, which are shown while the camera moves.
const quality = 85

// A Camera is where a frame is seen from. Its numbers are in the range of float32.
type Camera struct {
	Pos    [3]float64 `json:"pos"`
	Target [3]float64 `json:"target"`
	Up     [3]float64 `json:"up"`  // the direction that is up in the picture
	FOV    float64    `json:"fov"` // vertical, in degrees
}

// Options configure a page.
type Options struct {
	Model  string        // name of the model, for the page
	Sizes  []image.Point // sizes of frames that Render makes, at least one, the largest first
	Camera Camera        // of the first frame, and after a reset
	Rest   string        // what --camera has besides, such as "scale=2"; the page only shows it
	Radius float64       // of the scene
	// Render makes a frame of one of the sizes. Errors about the camera are *diag.Error. It is never called
	// concurrently.
	Render func(ctx context.Context, c Camera, size image.Point) (*image.RGBA, error)
	// Failed, if not nil, is called with errors that the user did not cause, such as those of the backend.
	Failed func(error)
}

// Page answers the requests of a browser. It is an http.Handler.
type Page struct {
	*localpage.Page
	Options
}

// New returns a page with a new token.
func New(o Options) *Page {
	p := &Page{Page: localpage.New(static, o.Failed), Options: o}
	p.HandleFunc("GET /start", p.start)
	p.HandleFunc("POST /frames", p.frame)
	return p
}

// about answers the first request of the page: what to show.
type about struct {
	Model  string   `json:"model"`
	Sizes  [][2]int `json:"sizes"` // width and height of frames, the largest first
	Camera Camera   `json:"camera"`
	Rest   string   `json:"rest"`
	Radius float64  `json:"radius"`
}

func (p *Page) start(w http.ResponseWriter, r *http.Request) {
	a := about{Model: p.Model, Camera: p.Camera, Rest: p.Rest, Radius: p.Radius}
	for _, s := range p.Sizes {
		a.Sizes = append(a.Sizes, [2]int{s.X, s.Y})
	}
	localpage.Reply(w, http.StatusOK, a)
}

// request asks for a frame.
type request struct {
	// Tab, if not empty, is a unique name of the tab. A newer request of the tab replaces this one while it waits.
	Tab    string    `json:"tab"`
	Pos    []float64 `json:"pos"`
	Target []float64 `json:"target"`
	Up     []float64 `json:"up"`
	FOV    *float64  `json:"fov"`
	Width  int       `json:"width"`  // of the frame: one of about.Sizes
	Format string    `json:"format"` // png or jpeg
}

// read checks everything that does not depend on the scene.
func (q *request) read(sizes []image.Point) (c Camera, size image.Point, err error) {
	if err := localpage.CheckTab(q.Tab); err != nil {
		return c, size, err
	}
	for _, v := range []struct {
		name string
		from []float64
		to   *[3]float64
	}{{"pos", q.Pos, &c.Pos}, {"target", q.Target, &c.Target}, {"up", q.Up, &c.Up}} {
		if len(v.from) != 3 {
			return c, size, localpage.BadRequest("%s has %d numbers; want 3", v.name, len(v.from))
		}
		for i, x := range v.from {
			if !(math.Abs(x) <= math.MaxFloat32) {
				return c, size, localpage.BadRequest("%s has %v; want numbers of float32", v.name, x)
			}
			v.to[i] = float64(float32(x)) // as the model takes it
		}
	}
	if q.FOV == nil {
		return c, size, localpage.BadRequest("fov is missing; want degrees")
	}
	c.FOV = *q.FOV
	if q.Format != "png" && q.Format != "jpeg" {
		return c, size, localpage.BadRequest("format is %q; allowed are png and jpeg", q.Format)
	}
	i := slices.IndexFunc(sizes, func(s image.Point) bool { return s.X == q.Width })
	if i < 0 {
		var widths []string
		for _, s := range sizes {
			widths = append(widths, fmt.Sprint(s.X))
		}
		return c, size, localpage.BadRequest("width is %d; the artifact renders %s", q.Width,
			strings.Join(widths, " and "))
	}
	return c, sizes[i], nil
}

// frame answers with a picture.
func (p *Page) frame(w http.ResponseWriter, r *http.Request) {
	var q request
	err := localpage.ReadJSON(http.MaxBytesReader(w, r.Body, maxRequest), &q)
	var file []byte
	if err == nil {
		file, err = p.picture(r.Context(), &q)
	}
	if err != nil {
		p.Fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "image/"+q.Format)
	w.Write(file)
}

// picture renders a frame. It encodes the frame before the next one is rendered, so that memory holds one at a time.
func (p *Page) picture(ctx context.Context, q *request) ([]byte, error) {
	c, size, err := q.read(p.Sizes)
	if err != nil {
		return nil, err
	}
	if err := p.Enter(ctx, q.Tab); err != nil {
		return nil, err
	}
	defer p.Leave()
	img, err := p.Render(ctx, c, size)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if q.Format == "jpeg" {
		err = jpeg.Encode(&b, img, &jpeg.Options{Quality: quality})
	} else {
		err = (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&b, img)
	}
	if err != nil {
		return nil, fmt.Errorf("the frame as %s: %w", q.Format, err)
	}
	return b.Bytes(), nil
}
