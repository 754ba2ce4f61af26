package arch

import (
	"errors"
	"os"
	"testing"

	"github.com/rlx-go/rlx/internal/campaign"
)

// FuzzConfig checks that a config.json is accepted or refused with ErrConfig, and that the memory for its values is
// bounded by its size.
func FuzzConfig(t *testing.F) {
	f := campaign.New(t)
	for _, s := range []string{`{"a":{"n":3,"eps":1e-5,"s":"x","null":null},"list":[1,{"b":2}]}`,
		`{"a.b":1,"a":{"b":2}}`, `{"":{"":{}}}`, `[]`, `{"a":1}{`} {
		f.Add([]byte(s))
	}
	if own, err := os.ReadFile("../../testdata/goldens/sam_vit_b/config.json"); err == nil {
		f.Add(own)
	}
	f.Fuzz(func(t testing.TB, doc []byte) {
		var c Config
		if err := c.Decode(doc, "f"); err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Fatal(err)
			}
			return
		}
		size := 0
		for key := range c.values {
			if len(key) > maxKey+1 {
				t.Fatalf("a key of %d bytes", len(key))
			}
			size++
			_, _, _ = c.Int(key, 0, 9)
			_, _, _ = c.Float(key)
			_, _, _ = c.String(key)
		}
		if size > len(doc) {
			t.Fatalf("%d values in %d bytes", size, len(doc))
		}
	})
}
