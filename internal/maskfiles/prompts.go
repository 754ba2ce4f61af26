package maskfiles

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/internal/regular"
	"github.com/rlx-go/rlx/segment"
)

// maxPrompts bounds the size of a file of prompts in bytes.
const maxPrompts = 16 << 20

// ReadPrompts reads a file of prompts: a list of {"points": [[x,y], [x,y,0]], "box": [x0,y0,x1,y1]}.
func ReadPrompts(path string) (out []segment.Prompts, err error) {
	bad := func(format string, args ...any) ([]segment.Prompts, error) {
		return nil, diag.New(code.MaskPrompt, path, format, args...).WithHint(
			`a file is [{"points": [[120,80], [30,40,0]]}, {"box": [60,40,200,160]}]`)
	}
	raw, err := regular.ReadFile(path, maxPrompts)
	if err != nil {
		return nil, diag.New(code.MaskPrompt, path, "%w", err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var list []struct {
		Points [][]float64
		Box    []float64
	}
	if err := d.Decode(&list); err != nil || d.More() {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) { // its text shows Go types
			return bad("is not a list of prompts: found a JSON %s at byte %d", wrong.Value, wrong.Offset)
		}
		return bad("is not a list of prompts: %v", err)
	}
	for i, x := range list {
		var p segment.Prompts
		for _, v := range x.Points {
			if len(v) != 2 && (len(v) != 3 || v[2] != 0 && v[2] != 1) {
				return bad("prompt %d: point %v is not [x,y], [x,y,0] (background) or [x,y,1] (foreground)", i, v)
			}
			p.Points = append(p.Points, segment.Point{X: v[0], Y: v[1], Foreground: len(v) == 2 || v[2] == 1})
		}
		if x.Box != nil {
			if len(x.Box) != 4 {
				return bad("prompt %d: box %v is not [x0,y0,x1,y1]", i, x.Box)
			}
			p.Box = &segment.Box{X0: x.Box[0], Y0: x.Box[1], X1: x.Box[2], Y1: x.Box[3]}
		}
		if len(p.Points) == 0 && p.Box == nil {
			return bad("prompt %d has neither points nor a box", i)
		}
		out = append(out, p)
	}
	if len(out) == 0 {
		return bad("has no prompts")
	}
	return out, nil
}
