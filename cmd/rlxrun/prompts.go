package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/rlx-go/rlx/core/code"
	"github.com/rlx-go/rlx/core/diag"
	"github.com/rlx-go/rlx/segment"
)

// parsePoint parses "X,Y" or "X,Y,0|1"; 1, the default, means foreground. Errors are *diag.Error with code.MaskPrompt.
func parsePoint(s string) (segment.Point, error) {
	v, ok := numbers(s)
	if !ok || len(v) != 2 && (len(v) != 3 || v[2] != 0 && v[2] != 1) {
		return segment.Point{},
			diag.New(code.MaskPrompt, "point "+strconv.Quote(s),
				"is not X,Y or X,Y,0 (background) or X,Y,1 (foreground)")
	}
	return segment.Point{X: v[0], Y: v[1], Foreground: len(v) == 2 || v[2] == 1}, nil
}

// parseBox parses "X0,Y0,X1,Y1". Errors are *diag.Error with code.MaskPrompt.
func parseBox(s string) (segment.Box, error) {
	v, ok := numbers(s)
	if !ok || len(v) != 4 {
		return segment.Box{}, diag.New(code.MaskPrompt, "box "+strconv.Quote(s), "is not X0,Y0,X1,Y1")
	}
	return segment.Box{X0: v[0], Y0: v[1], X1: v[2], Y1: v[3]}, nil
}

func numbers(s string) ([]float64, bool) {
	var out []float64
	for part := range strings.SplitSeq(s, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, false
		}
		out = append(out, v)
	}
	return out, true
}
