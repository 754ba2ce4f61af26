package main

import (
	"math"
	"strings"
	"testing"

	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/task"
)

func TestCamera(t *testing.T) {
	scene := &task.Splats{Center: [3]float64{1, 2, 3}, Radius: 2}
	c, err := parseCamera("", scene)
	if err != nil || c.target != scene.Center || c.pos != [3]float64{1, 2, -2} || c.fov != 60 {
		t.Errorf("%+v, %v", c, err)
	}
	c, err = parseCamera("pos=0,-1,-4; target=0,0,0;fov=45;up=0,1,0;background=1,0.5,0;scale=2", scene)
	if err != nil {
		t.Fatal(err)
	}
	m := tensor.View[float32](c.meta().Data)
	for i, want := range map[int]float32{1: -1, 2: -4, 3: 0, 7: -1, 9: 45, 12: 1, 13: 0.5, 18: 2} {
		if m[i] != want {
			t.Errorf("meta[%d] is %v; want %v", i, m[i], want)
		}
	}
	half := c.turned(math.Pi)
	for i, want := range []float64{0, -1, 4} {
		if math.Abs(half.pos[i]-want) > 1e-12 {
			t.Errorf("half a turn leads to %v", half.pos)
		}
	}
	for text, want := range map[string]string{
		"pos=1,2": "want 3 numbers", "pos=1,2,x": "finite number", "fov=NaN": "finite number", "fov=200": "1 to 170",
		"roll=3": `"roll" is unknown`, "fov=50;fov=60": "given twice", "scale=0": "above 0", "pos=1,2,3": "one point",
		"up=0,0,1": "along the view", ";": `"" is unknown`, "pos=1e99,0,0": "finite number",
	} {
		if _, err := parseCamera(text, scene); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error is %v; want %q", text, err, want)
		}
	}
}
