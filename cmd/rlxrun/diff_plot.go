package main

import (
	"context"
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Sizes of the picture of --plot, in pixels.
const (
	growthWidth, growthHeight     = 900, 480
	growthLeft, growthRight       = 70, 20
	growthTop, growthBottom       = 40, 46
	growthLowest, growthPerDecade = -9, 1 // errors below 1e-9 are drawn there
)

// draw writes the picture of --plot, if the flag is set.
func (r *diffReport) draw(ctx context.Context, path string) error {
	if path == "" {
		return nil
	}
	var w files
	defer w.abort()
	if err := w.add(ctx, path, r.plot); err != nil {
		return err
	}
	return w.commit()
}

// plot draws how the error grows: the relative RMS error of each value that was compared, by step, with a logarithmic
// scale. Values beyond the tolerance are red, outputs are rings.
func (r *diffReport) plot(w io.Writer) error {
	last, hi := 1, growthLowest+growthPerDecade
	for _, row := range r.Rows {
		last = max(last, row.Step)
		if row.Delta != nil && row.Delta.RMS > 0 && !math.IsInf(float64(row.Delta.RMS), 0) {
			hi = max(hi, int(math.Ceil(math.Log10(float64(row.Delta.RMS)))))
		}
	}
	x := func(step int) float64 {
		return growthLeft + float64(step)/float64(last)*(growthWidth-growthLeft-growthRight)
	}
	y := func(e float64) float64 { // of the logarithm
		part := (float64(hi) - min(max(e, growthLowest), float64(hi))) / float64(hi-growthLowest)
		return growthTop + part*(growthHeight-growthTop-growthBottom)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+
		"\n", growthWidth, growthHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", growthWidth, growthHeight)
	fmt.Fprintf(&b, `<text x="%d" y="18">%s: %s beside %s</text>`+"\n", growthLeft, html.EscapeString(r.Method),
		html.EscapeString(r.Got), html.EscapeString(r.Want))
	for e := growthLowest; e <= hi; e += growthPerDecade {
		fmt.Fprintf(&b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end" fill="#555">1e%d</text>`+
			"\n", growthLeft, growthWidth-growthRight, y(float64(e)), y(float64(e)), growthLeft-6, y(float64(e))+4, e)
	}
	for i := range 5 {
		step := last * i / 4
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%d</text>`+"\n", x(step),
			growthHeight-growthBottom+18, step)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle" fill="#555">step; up: relative RMS error; red: beyond the tolerance; rings: outputs</text>`+
		"\n", growthWidth/2, growthHeight-8)
	for _, row := range r.Rows {
		if row.Delta == nil {
			continue
		}
		e := math.Log10(float64(row.Delta.RMS)) // -Inf for equal values
		if math.IsNaN(e) {
			e = float64(hi)
		}
		colour, fill := "#1f6feb", "#1f6feb"
		if row.Delta.Bad > 0 {
			colour, fill = "#d1242f", "#d1242f"
		}
		radius := 2.5
		if row.output {
			radius, fill = 5, "none"
		}
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="%.1f" fill="%s" stroke="%s"><title>%s</title></circle>`+"\n",
			x(row.Step), y(e), radius, fill, colour,
			html.EscapeString(fmt.Sprintf("step %d: %s %s %s, RMS error %.2g, %d of %d beyond the tolerance", row.Step,
				row.Op, row.Name, row.Delta.Type, float64(row.Delta.RMS), row.Delta.Bad, row.Delta.Len)))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
