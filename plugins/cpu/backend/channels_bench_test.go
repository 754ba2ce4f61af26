package backend

import (
	"context"
	"testing"

	"github.com/rlx-go/rlx/core/device"
	"github.com/rlx-go/rlx/core/ir"
	"github.com/rlx-go/rlx/core/sched"
	"github.com/rlx-go/rlx/core/tensor"
)

// BenchmarkChannelsLast times what lies between the convolutions of a network, with channels first ("first") and
// with channels last ("last"), on one thread:
//
//	go test ./plugins/cpu/backend -run - -bench ChannelsLast
func BenchmarkChannelsLast(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"max/first", `x = input : f32[1,64,112,112]
y = pool x {kernel=[3,3], kind="max", layout="nchw", padding=[1,1], stride=[2,2]} : f32[1,64,56,56]`},
		{"max/last", `x = input : f32[1,112,112,64]
y = pool x {kernel=[3,3], kind="max", layout="nhwc", padding=[1,1], stride=[2,2]} : f32[1,56,56,64]`},
		{"max1/first", `x = input : f32[1,192,28,28]
y = pool x {kernel=[3,3], kind="max", layout="nchw", padding=[1,1], stride=[1,1]} : f32[1,192,28,28]`},
		{"max1/last", `x = input : f32[1,28,28,192]
y = pool x {kernel=[3,3], kind="max", layout="nhwc", padding=[1,1], stride=[1,1]} : f32[1,28,28,192]`},
		{"mean/first", `x = input : f32[1,128,56,56]
y = pool x {kernel=[2,2], kind="mean", layout="nchw"} : f32[1,128,28,28]`},
		{"mean/last", `x = input : f32[1,56,56,128]
y = pool x {kernel=[2,2], kind="mean", layout="nhwc"} : f32[1,28,28,128]`},
		{"max5/first", `x = input : f32[1,128,20,20]
y = pool x {kernel=[5,5], kind="max", layout="nchw", padding=[2,2], stride=[1,1]} : f32[1,128,20,20]`},
		{"max5/last", `x = input : f32[1,20,20,128]
y = pool x {kernel=[5,5], kind="max", layout="nhwc", padding=[2,2], stride=[1,1]} : f32[1,20,20,128]`},
		{"adaptive/first", `x = input : f32[1,256,14,14]
y = adaptive_avg_pool x {layout="nchw", output=[7,7]} : f32[1,256,7,7]`},
		{"adaptive/last", `x = input : f32[1,14,14,256]
y = adaptive_avg_pool x {layout="nhwc", output=[7,7]} : f32[1,7,7,256]`},
		{"global/first", `x = input : f32[1,1280,7,7]
y = reduce_mean x {axes=[2,3]} : f32[1,1280]`},
		{"global/last", `x = input : f32[1,7,7,1280]
y = reduce_mean x {axes=[1,2]} : f32[1,1280]`},
		{"globals/first", `x = input : f32[1,96,56,56]
y = reduce_mean x {axes=[2,3]} : f32[1,96]`},
		{"globals/last", `x = input : f32[1,56,56,96]
y = reduce_mean x {axes=[1,2]} : f32[1,96]`},
		{"excite/first", `x = input : f32[2,96,28,28]
s = input : f32[2,96,1,1]
y = mul x, s : f32[2,96,28,28]`},
		{"excite/last", `x = input : f32[2,28,28,96]
s = input : f32[2,1,1,96]
y = mul x, s : f32[2,28,28,96]`},
		{"excite16/first", `x = input : f32[2,16,56,56]
s = input : f32[2,16,1,1]
y = mul s, x : f32[2,16,56,56]`},
		{"excite16/last", `x = input : f32[2,56,56,16]
s = input : f32[2,1,1,16]
y = mul s, x : f32[2,56,56,16]`},
		{"concat/first", `x = input : f32[2,64,28,28]
s = input : f32[2,96,28,28]
y = concat x, s, x {axis=1} : f32[2,224,28,28]`},
		{"concat/last", `x = input : f32[2,28,28,64]
s = input : f32[2,28,28,96]
y = concat x, s, x {axis=3} : f32[2,28,28,224]`},
		{"concat20/last", `x = input : f32[2,28,28,20]
s = input : f32[2,28,28,12]
y = concat x, s {axis=3} : f32[2,28,28,32]`},
		{"narrow/first", `x = input : f32[2,116,28,28]
y = narrow x {axis=1, len=58, start=58} : f32[2,58,28,28]`},
		{"narrow/last", `x = input : f32[2,28,28,116]
y = narrow x {axis=3, len=58, start=58} : f32[2,28,28,58]`},
		{"shuffle/first", `x = input : f32[2,116,28,28]
r = reshape x : f32[2,2,58,28,28]
t = transpose r {perm=[0,2,1,3,4]} : f32[2,58,2,28,28]
y = reshape t : f32[2,116,28,28]`},
		{"shuffle/last", `x = input : f32[2,28,28,116]
r = reshape x : f32[2,28,28,2,58]
t = transpose r {perm=[0,1,2,4,3]} : f32[2,28,28,58,2]
y = reshape t : f32[2,28,28,116]`},
		{"pad/first", `x = input : f32[1,64,56,56]
y = pad x {after=[0,0,1,1], before=[0,0,0,0]} : f32[1,64,57,57]`},
		{"pad/last", `x = input : f32[1,56,56,64]
y = pad x {after=[0,1,1,0], before=[0,0,0,0]} : f32[1,57,57,64]`},
		{"softmax/first", `x = input : f32[1,21,65,65]
y = softmax x {axis=1} : f32[1,21,65,65]`},
		{"softmax/last", `x = input : f32[1,65,65,21]
y = softmax x {axis=3} : f32[1,65,65,21]`},
		{"border/image", `x = input : f32[1,3,224,224]
y = transpose x {perm=[0,2,3,1]} : f32[1,224,224,3]`},
		{"border/images", `x = input : f32[1,224,224,3]
y = transpose x {perm=[0,3,1,2]} : f32[1,3,224,224]`},
		{"border/last", `x = input : f32[1,96,56,56]
y = transpose x {perm=[0,2,3,1]} : f32[1,56,56,96]`},
		{"border/first", `x = input : f32[1,56,56,96]
y = transpose x {perm=[0,3,1,2]} : f32[1,96,56,56]`},
		{"border/copy", `x = input : f32[1,56,56,96]
y = relu x : f32[1,56,56,96]`},
		{"resize/first", `x = input : f32[1,64,28,28]
y = resize x {coords="half_pixel", mode="linear"} : f32[1,64,56,56]`},
		{"nearest/first", `x = input : f32[1,64,28,28]
y = resize x {coords="asymmetric", mode="nearest"} : f32[1,64,56,56]`},
	} {
		b.Run(c.name, func(b *testing.B) {
			g, err := ir.Parse(c.text + "\nreturn y")
			if err != nil {
				b.Fatal(err)
			}
			p, _, err := sched.Build(
				g, sched.Options{Target: "portable", Weights: func(string) (int64, bool) { return 0, false }})
			if err != nil {
				b.Fatal(err)
			}
			e, err := Backend{}.Load(context.Background(), device.Load{Program: p, Threads: 1})
			if err != nil {
				b.Fatal(err)
			}
			defer e.Close()
			r := device.Run{IO: tensor.AlignedBytes(int(p.IOSize))}
			for b.Loop() {
				if _, err := e.Run(context.Background(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
