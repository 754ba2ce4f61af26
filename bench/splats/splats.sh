#!/bin/sh
# Times the ops of Gaussian splats on the first GPU: a million random splats at 1920x1080, forward and with gradients,
# and each shader by itself.
#
#   bench/splats/splats.sh                   builds backend.test and runs it
#   bench/splats/splats.sh ./backend.test    runs a binary that was built elsewhere
#   RLX_SPLATS=100000,800,800,0.008 ...      another scene: splats, width, height, middle size
set -e
binary=$1
if [ -z "$binary" ]; then
	binary=$(mktemp -d)/backend.test
	CGO_ENABLED=1 go test -c -o "$binary" ./plugins/wgpu/backend
fi
RLX_REQUIRE_GPU=1 "$binary" -test.run NONE -test.bench Splats -test.benchtime 1x
