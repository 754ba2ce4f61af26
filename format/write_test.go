package format

import (
	"testing"
)

func TestRoundTrip(t *testing.T) {
	v, err := verifyBytes(artifactBytes(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Log(v, v.Sections(), v.Meta())
}
