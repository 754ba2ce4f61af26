package main

import (
	"errors"
	"testing"

	"github.com/rlx-go/rlx/segment"
)

func TestParse(t *testing.T) {
	for s, want := range map[string]segment.Point{
		"1,2": {X: 1, Y: 2, Foreground: true}, " 1.5 , -2 ": {X: 1.5, Y: -2, Foreground: true},
		"1,2,1": {X: 1, Y: 2, Foreground: true}, "1,2,0": {X: 1, Y: 2},
	} {
		if got, err := parsePoint(s); err != nil || got != want {
			t.Errorf("point %q: %v, %v", s, got, err)
		}
	}
	if got, err := parseBox("1,2,3,4.5"); err != nil || got != (segment.Box{X0: 1, Y0: 2, X1: 3, Y1: 4.5}) {
		t.Errorf("box: %v, %v", got, err)
	}
	for _, s := range []string{"", "1", "1,", "1,2,3", "1,2,0,0", "a,b", "NaN,1", "1,Inf", "1;2"} {
		if _, err := parsePoint(s); !errors.Is(err, segment.ErrPrompt) {
			t.Errorf("point %q: %v", s, err)
		}
	}
	for _, s := range []string{"", "1,2,3", "1,2,3,4,5", "1,2,3,x"} {
		if _, err := parseBox(s); !errors.Is(err, segment.ErrPrompt) {
			t.Errorf("box %q: %v", s, err)
		}
	}
}
