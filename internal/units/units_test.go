package units

import "testing"

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "300M": 300e6, "300MB": 300e6, "1.5g": 1500e6, "2Gi": 2 << 30,
		"512KiB": 512 << 10, "4096 B": 4096} {
		if got, ok := ParseBytes(text); !ok || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "M", "-3M", "0", "ten", "1e99", "3X", "NaN", "inf"} {
		if got, ok := ParseBytes(text); ok {
			t.Errorf("%q: %d; want no size", text, got)
		}
	}
}
