//go:build cgo && (darwin || amd64)

package backend

import (
	"slices"
	"testing"
	"time"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
	"github.com/rlx-go/rlx/internal/tensortest"
	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// TestHelpers checks that the encoder of the golden model gives the same results if helpers compile its shaders.
func TestHelpers(t *testing.T) {
	find, section := compileSAM(t, dtype.F32)
	p := find("encode", "cpu")
	out := onDevice(t, load(t, New(Options{Help: true}), p, section), p, nil,
		map[string]*tensor.Array{"image": tensortest.Golden(t, golden+"golden.safetensors:image")})
	tensortest.Near(t, "embeddings", out["embeddings"],
		tensortest.Golden(t, golden+"golden.safetensors:image_embeddings"), 1e-5)
}

// TestHelper checks that a helper compiles all texts that are left, and hands back those that it cannot compile.
func TestHelper(t *testing.T) {
	load(t, shared, sums(t, 1, 16), nil)
	adapters, err := new(api).Adapters()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := adapters[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	const good = `@group(0) @binding(0) var<storage, read_write> x: array<u32>;
@group(0) @binding(1) var<storage, read> y: array<u32>;
@compute @workgroup_size(1) fn main() { x[0] = y[0]; }`
	texts := []*text{{Source: gpu.Source{Label: "good", Text: good, Bindings: 2}},
		{Source: gpu.Source{Label: "bad", Text: "fn main(", Bindings: 2}}}
	c := newCompiling(dev.(*opened), slices.Clone(texts))
	c.helper()
	if len(c.todo) > 0 || len(c.busy) > 0 || !slices.Equal(c.warm, texts) || texts[0].taken <= 0 {
		t.Fatalf("the helper left %+v", c)
	}
	made, at, err := dev.Compile([]gpu.Source{texts[1].Source, texts[0].Source})
	if err == nil || at != 0 {
		t.Errorf("%d: %v; want the error of a text that is not WGSL", at, err)
	}
	if made[1] == nil {
		t.Error("the other text has no pipeline")
	}
}

// TestSharing checks that the device itself compiles every text once, those of helpers first. If helpers do not make it
// faster, they get no more texts.
func TestSharing(t *testing.T) {
	texts := make([]*text, 6)
	for i := range texts {
		texts[i] = &text{Source: gpu.Source{Label: string(rune('a' + i))}}
	}
	begin := func() *compiling {
		for _, t := range texts {
			t.taken = 0
		}
		return newCompiling(nil, slices.Clone(texts))
	}
	want := func(got, want *text) {
		t.Helper()
		if got != want {
			t.Fatalf("got %+v; want %+v", got, want)
		}
	}
	c := begin()
	want(c.next(), texts[0])
	h1, h2 := c.give(), c.give()
	want(h1, texts[1])
	want(h2, texts[2])
	want(c.next(), texts[3])
	c.done(h2, time.Second)
	want(c.next(), texts[2]) // the text that a helper has compiled comes first
	want(c.give(), texts[4])
	want(c.give(), texts[5])
	want(c.give(), nil)
	go func() {
		for _, h := range []*text{texts[5], texts[1], texts[4]} {
			c.done(h, time.Second)
		}
	}()
	for _, w := range []*text{texts[5], texts[1], texts[4], nil} { // waits for helpers
		want(c.next(), w)
	}
	for _, x := range texts {
		if (x.taken == time.Second) != (x != texts[0] && x != texts[3]) {
			t.Errorf("%s took a helper %v", x.Label, x.taken)
		}
	}

	c = begin()
	want(c.next(), texts[0])
	h1 = c.give()
	c.stop()
	want(c.give(), nil)
	for _, w := range []*text{texts[2], texts[3], texts[4], texts[5], h1, nil} {
		want(c.next(), w)
	}
	c.done(h1, time.Second) // too late
	want(c.next(), nil)
}
