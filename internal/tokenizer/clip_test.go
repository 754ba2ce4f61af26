package tokenizer

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// TestCLIP compares the ids of texts with those of CLIP's tokenizer in Transformers, which SAM 3 uses.
func TestCLIP(t *testing.T) {
	const dir = "../../testdata/goldens/sam3_tiny/"
	file, err := os.ReadFile(dir + "tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(dir + "tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Text string
		IDs  []int
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if ids, err := tok.Encode(c.Text, true); err != nil || !slices.Equal(ids, c.IDs) {
			t.Errorf("%q: %v, %v; want %v", c.Text, ids, err, c.IDs)
		}
	}
}
