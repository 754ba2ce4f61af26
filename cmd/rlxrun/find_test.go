package main

import "testing"

func TestElsewhere(t *testing.T) {
	for system, want := range map[[3]string]bool{
		{"metal", "darwin", "arm64"}: false, {"metal", "darwin", "amd64"}: true, {"metal", "linux", "arm64"}: true,
		{"wgpu", "linux", "amd64"}: false, {"cuda", "linux", "arm64"}: false, {"cuda", "windows", "amd64"}: true,
	} {
		if why := elsewhere(system[0], system[1], system[2]); (why != "") != want {
			t.Errorf("%v: %q", system, why)
		}
	}
}
