package weights

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// FuzzSafetensors: whatever is accepted tiles the file exactly, and its bytes can be read.
func FuzzSafetensors(f *testing.F) {
	f.Add(file(two, 12))
	f.Add(file(`{"__metadata__":{"a":"b"},"x":{"dtype":"I64","shape":[0,7],"data_offsets":[0,0]}}`, 0))
	f.Add(file(one("F4", "[2]", "[0,1]"), 1))
	f.Add(file(one("F32", "[4294967296,4294967296]", "[0,0]"), 0))
	f.Add(file("{}", 0))
	f.Add([]byte("PK\x03\x04aaaaaaaa"))
	if demo, err := os.ReadFile("../../demo/sam-nano.safetensors"); err == nil {
		f.Add(demo[:26392]) // its header
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ts, _, err := parseHeader("f", bytes.NewReader(data), int64(len(data)))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f: ") {
				t.Errorf("error %q does not name the file", err)
			}
			return
		}
		end := int64(len(data))
		for i := len(ts) - 1; i >= 0; i-- {
			if ts[i].start+ts[i].Size != end {
				t.Fatalf("tensor %q ends at %d, not %d", ts[i].Name, ts[i].start+ts[i].Size, end)
			}
			end = ts[i].start
		}
	})
}

// FuzzIndex: whatever is accepted names plain files only.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(goodIndex))
	f.Add([]byte(`{"weight_map":{"a":"../x.safetensors"}}`))
	f.Add([]byte(`{"metadata":[[[]]],"weight_map":{"a":"x.safetensors","\u0061":"y.safetensors"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
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
