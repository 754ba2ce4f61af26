package weights

import (
	"strings"
	"testing"

	"github.com/rlx-go/rlx/internal/campaign"
)

// FuzzIndex checks that an accepted index names only plain files.
func FuzzIndex(t *testing.F) {
	f := campaign.New(t)
	f.Add([]byte(goodIndex))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Add([]byte(`{"metadata":[[[]]],"weight_map":{"a":"x.safetensors","\u0061":"y.safetensors"}}`))
	f.Fuzz(func(t testing.TB, data []byte) {
		where, shards, err := decodeIndex(data)
		if err != nil {
			return
		}
		for _, s := range shards {
			if strings.ContainsAny(s, "/\\\x00\n") || !strings.HasSuffix(s, ".safetensors") {
				t.Fatalf("shard %q accepted", s)
			}
		}
		if len(where) < len(shards) || len(shards) == 0 {
			t.Fatalf("%d tensors in %d shards", len(where), len(shards))
		}
	})
}
