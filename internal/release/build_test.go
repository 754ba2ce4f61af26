package release

import "testing"

func TestBuild(t *testing.T) {
	for _, c := range []struct {
		b    Build
		want string
	}{
		{Build{Version: "1.2.3"}, "1.2.3"},
		{Build{Version: "1.2.3", Commit: "c9d5ea0f1234567", Date: "2026-05-04"}, "1.2.3 (c9d5ea0f1234, 2026-05-04)"},
		{Build{Version: "1.2.3", Commit: "c9d5", Modified: true}, "1.2.3 (c9d5 with changes)"},
	} {
		if got := c.b.String(); got != c.want {
			t.Errorf("%s; want %s", got, c.want)
		}
	}
}
