package train

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// A Curve holds the loss of each step of a training run, and its evaluations.
type Curve struct {
	Losses []float32    // of the steps
	Eval   []Evaluation // of another text
}

// An Evaluation is the loss on another text after a number of steps.
type Evaluation struct {
	Step int
	Loss float64
}

// bounds returns the smallest and largest loss, a little apart.
func (c Curve) bounds() (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	add := func(x float64) {
		if finite(x) {
			lo, hi = min(lo, x), max(hi, x)
		}
	}
	for _, x := range c.Losses {
		add(float64(x))
	}
	for _, e := range c.Eval {
		add(e.Loss)
	}
	if lo > hi {
		return 0, 1
	}
	if hi-lo < 1e-6 {
		return lo - 0.5, hi + 0.5
	}
	return lo, hi
}

// Text draws the curve with characters, height lines of about width columns. Each column is the mean of its steps.
func (c Curve) Text(width, height int) string {
	n := len(c.Losses)
	if n == 0 {
		return ""
	}
	columns := min(width, n)
	means := Curve{Losses: make([]float32, columns)}
	for i := range columns {
		from, to := i*n/columns, (i+1)*n/columns
		sum := 0.0
		for _, x := range c.Losses[from:to] {
			sum += float64(x)
		}
		means.Losses[i] = float32(sum / float64(to-from))
	}
	lo, hi := means.bounds()
	grid := make([][]rune, height)
	for y := range grid {
		grid[y] = []rune(strings.Repeat(" ", columns))
	}
	levels := []rune("▁▂▃▄▅▆▇█")
	for i, x := range means.Losses {
		units := int((float64(x) - lo) / (hi - lo) * float64(8*height-1)) // eighths of a line
		for y := range height {
			if rest := units - 8*y; rest >= 0 {
				grid[height-1-y][i] = levels[min(rest, 7)]
			}
		}
	}
	var b strings.Builder
	for y, line := range grid {
		label := ""
		switch y {
		case 0:
			label = fmt.Sprintf("%.3g", hi)
		case height - 1:
			label = fmt.Sprintf("%.3g", lo)
		}
		fmt.Fprintf(&b, "%8s │%s\n", label, strings.TrimRight(string(line), " "))
	}
	fmt.Fprintf(&b, "%8s └%s %d steps\n", "", strings.Repeat("─", columns), n)
	return b.String()
}

// Sizes of the picture that SVG draws, in pixels.
const (
	plotWidth, plotHeight            = 800, 480
	plotLeft, plotRight              = 70, 20
	plotTop, plotBottom              = 30, 50
	plotTicks                        = 5
	trainColour, evalColour, gridInk = "#1f6fb4", "#d1632a", "#d8d8d8"
)

// SVG draws the curve as a picture, with the loss of each step and, if there are any, the evaluations.
func (c Curve) SVG(w io.Writer) error {
	lo, hi := c.bounds()
	n := float64(max(1, len(c.Losses)-1))
	for _, e := range c.Eval {
		n = max(n, float64(e.Step))
	}
	x := func(step float64) float64 { return plotLeft + step/n*(plotWidth-plotLeft-plotRight) }
	y := func(loss float64) float64 {
		return plotTop + (hi-loss)/(hi-lo)*(plotHeight-plotTop-plotBottom)
	}
	var b strings.Builder
	fmt.Fprintf(
		&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">`+"\n",
		plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	for i := range plotTicks {
		part := float64(i) / (plotTicks - 1)
		loss, step := lo+part*(hi-lo), math.Round(part*n)
		fmt.Fprintf(&b, `<path d="M%d %.1fH%d" stroke="%s"/>`+"\n", plotLeft, y(loss), plotWidth-plotRight, gridInk)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%.3g</text>`+"\n", plotLeft-8, y(loss)+4, loss)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%.0f</text>`+"\n", x(step),
			plotHeight-plotBottom+20, step)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="middle">step</text>`+"\n", (plotLeft+plotWidth-plotRight)/2,
		plotHeight-10)
	line := func(colour string, points []string) {
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`+"\n", colour,
			strings.Join(points, " "))
	}
	var points []string
	for i, loss := range c.Losses {
		if v := float64(loss); finite(v) {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(float64(i)), y(v)))
		}
	}
	line(trainColour, points)
	fmt.Fprintf(&b, `<text x="%d" y="20" fill="%s">loss of the batch (nats per token)</text>`+"\n", plotLeft,
		trainColour)
	if len(c.Eval) > 0 {
		points = nil
		for _, e := range c.Eval {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(float64(e.Step)), y(e.Loss)))
			fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(float64(e.Step)), y(e.Loss),
				evalColour)
		}
		line(evalColour, points)
		fmt.Fprintf(&b, `<text x="%d" y="20" fill="%s">evaluation</text>`+"\n", plotLeft+260, evalColour)
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}
