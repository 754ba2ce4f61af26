#!/bin/sh
# Takes six pictures of a scene of Gaussian splats and fits another scene to them, which grows from 2000 random places to
# 8000: demo/fit.sh FOLDER
# It needs Python, rlxc and rlxrun in the path, and some minutes on two cores. The PSNR at its end is above 30 dB.
set -e
here=$(dirname "$0")
mkdir -p "$1"
python3 "$here/splats.py" "$1/scene.ply"
rlxc "$1/scene.ply" --set width=160 --set height=120 -o "$1/small.rlx"
rlxrun "$1/small.rlx" --turntable 6 --camera 'pos=0,-1.8,-3.6;target=0,0.2,0;fov=45' -o "$1/views"
rlxc "$1/views" --train splats=8000,degree=1,begin=2000 -o "$1/fit.rlx"
rlxrun train "$1/fit.rlx" --views "$1/views" -n 1500 --save "$1/fitted.ply"
rlxc "$1/fitted.ply" -o "$1/fitted.rlx"
