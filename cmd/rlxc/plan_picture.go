package main

import (
	"fmt"
	"hash/fnv"
	"html/template"
	"io"
	"strings"

	"github.com/rlx-go/rlx/internal/cli"
)

// The picture has a column per step, and the arena's bytes from top to bottom. A box is the live range of a value.
const (
	pictureWidth, pictureHeight = 1200, 600
	pictureMargin               = 60
	charWidth                   = 7 // upper bound for most letters of the 12 px font, in px; decides which names fit
)

// svg returns a picture of the arena over time.
func (a arena) svg() string {
	var b strings.Builder
	steps := float64(max(1, len(a.p.Steps)))
	bytes := float64(max(1, a.p.ArenaSize))
	x := func(step int) float64 { return pictureMargin + float64(step)/steps*(pictureWidth-pictureMargin-10) }
	y := func(off int64) float64 { return 30 + float64(off)/bytes*(pictureHeight-60) }
	fmt.Fprintf(
		&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		pictureWidth, pictureHeight)
	fmt.Fprintf(&b, `<text x="%d" y="18">%s: arena %s over %d steps, peak live %s</text>`+"\n", pictureMargin,
		template.HTMLEscapeString(a.p.label()), cli.Size(a.p.ArenaSize), len(a.p.Steps), cli.Size(a.peak))
	fmt.Fprintf(&b, `<rect x="%d" y="30" width="%d" height="%d" fill="#f4f4f4" stroke="#999"/>`+"\n", pictureMargin,
		pictureWidth-pictureMargin-10, pictureHeight-60)
	for i := range 5 {
		at := a.p.ArenaSize * int64(i) / 4
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end" fill="#555">%s</text>`+"\n", pictureMargin-6, y(at)+4,
			cli.Size(at))
		step := len(a.p.Steps) * i / 4
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#555">%d</text>`+"\n", x(step),
			pictureHeight-12, step)
	}
	for _, s := range a.spans {
		title := template.HTMLEscapeString(
			fmt.Sprintf("%s %s, %s at %d, steps %d..%d", s.Name, s.Type, cli.Size(s.Size), s.Offset, s.First, s.Last))
		fmt.Fprintf(
			&b, `<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" fill="%s" stroke="#333" stroke-width="0.3"><title>%s</title></rect>`+
				"\n",
			x(s.First), y(s.Offset), max(0.5, x(s.Last+1)-x(s.First)), max(0.5, y(s.Offset+s.Size)-y(s.Offset)),
			colour(s.Name), title)
		if x(s.Last+1)-x(s.First) > charWidth*float64(len(s.Name)+1) && y(s.Offset+s.Size)-y(s.Offset) > 14 {
			fmt.Fprintf(&b, `<text x="%.2f" y="%.2f" pointer-events="none">%s</text>`+"\n", x(s.First)+4,
				y(s.Offset)+13, template.HTMLEscapeString(s.Name))
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// colour returns a colour that depends only on the name, so that two pictures can be compared.
func colour(name string) string {
	h := fnv.New32a()
	io.WriteString(h, name)
	return fmt.Sprintf("hsl(%d,55%%,68%%)", h.Sum32()%360)
}
