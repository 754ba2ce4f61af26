package driver

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/rlx-go/rlx/plugins/internal/gpu"
)

// TestUploads copies ranges of many sizes to the device, on several threads and, without pinned memory, on one.
func TestUploads(t *testing.T) {
	for _, pinned := range []bool{true, false} {
		f := newFake()
		_, d := f.start(t, "")
		if !pinned {
			f.results[cuMemHostAlloc] = errorMemory
		}
		rng, size := rand.New(rand.NewPCG(1, 2)), int64(40*feedBytes)
		b, err := d.NewBuffer("weights", size, gpu.Storage)
		if err != nil {
			t.Fatal(err)
		}
		want := make([]byte, size)
		for at := int64(0); at < size; {
			n := min(size-at, rng.Int64N([]int64{64, leastFeed, 9 * feedBytes}[rng.IntN(3)]))
			data := make([]byte, n)
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			copy(want[at:], data)
			if err := d.Upload(b, at, data); err != nil {
				t.Fatal(err)
			}
			at += (n + 3) &^ 3
		}
		if err := d.Uploaded(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(memory(b.(*buffer).at, size), want) {
			t.Errorf("pinned memory: %t: the device has other bytes", pinned)
		}
		if (f.count(cuEventSynchronize) > 0) != pinned {
			t.Errorf("pinned memory: %t: %d copies from it", pinned, f.count(cuEventSynchronize))
		}
	}
}

// TestUploadFails: the error of a copy on another thread is returned, once.
func TestUploadFails(t *testing.T) {
	f := newFake()
	_, d := f.start(t, "")
	b, err := d.NewBuffer("weights", 4*feedBytes, gpu.Storage)
	if err != nil {
		t.Fatal(err)
	}
	f.results[cuMemcpyHtoDAsync] = 1
	if err := d.Upload(b, 0, make([]byte, 4*feedBytes)); err != nil {
		t.Fatal(err)
	}
	if err := d.Uploaded(); err == nil {
		t.Error("no error")
	}
	if err := d.Uploaded(); err != nil {
		t.Error(err)
	}
}

// TestQueues: the library makes one queue, unless the user has chosen another number.
func TestQueues(t *testing.T) {
	const name = "CUDA_DEVICE_MAX_CONNECTIONS"
	for _, own := range []string{"", "4"} {
		t.Setenv(name, own)
		want := own
		if own == "" {
			os.Unsetenv(name)
			want = "1"
		}
		newFake().start(t, "")
		if got := os.Getenv(name); got != want {
			t.Errorf("with %q there are %s queues", own, got)
		}
	}
}
