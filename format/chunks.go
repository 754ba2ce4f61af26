package format

import (
	"bytes"
	"context"
	"crypto/sha256"
	"hash/crc32"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// workerCount is the number of goroutines that hash. SHA-256 reaches about 1.3 GB/s per core, so more cores are faster.
func workerCount() int { return min(max(runtime.GOMAXPROCS(0), 2), 32) }

// readPiece is small enough to stay in a core's cache between reading and hashing, in bytes.
const readPiece = 256 << 10

// readPieces copies size bytes at off to w, through buf.
func readPieces(r io.ReaderAt, off, size int64, buf []byte, w io.Writer) error {
	for size > 0 {
		b := buf[:min(size, int64(len(buf)))]
		if err := readAt(r, b, off); err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		off, size = off+int64(len(b)), size-int64(len(b))
	}
	return nil
}

// readAt fills b. The file's size was checked before, so io.EOF is an error like any other.
func readAt(r io.ReaderAt, b []byte, off int64) error {
	if len(b) == 0 {
		return nil
	}
	n, err := r.ReadAt(b, off)
	if n == len(b) {
		return nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// chunkTest reports whether chunk i, of size bytes at off, is correct. It may overwrite buf.
type chunkTest func(i, off, size int64, buf []byte) (bool, error)

// checkChunks tests the listed chunks of size bytes of weights on all cores. list must ascend. It returns the lowest
// chunk that is wrong or cannot be read, and the error for that; -1 if all are correct.
func checkChunks(size int64, list []int64, test chunkTest) (bad int64, err error) {
	var next atomic.Int64
	var mu sync.Mutex
	bad = -1
	var wg sync.WaitGroup
	for range min(workerCount(), len(list)) {
		wg.Go(func() {
			buf := make([]byte, readPiece)
			for {
				// Chunks are assigned in order. When one is wrong, all lower ones have been assigned and will be
				// finished.
				i := next.Add(1) - 1
				if i >= int64(len(list)) {
					return
				}
				off := list[i] * ChunkSize
				ok, readErr := test(list[i], off, min(ChunkSize, size-off), buf)
				if !ok || readErr != nil {
					next.Store(int64(len(list)))
					mu.Lock()
					if bad < 0 || list[i] < bad {
						bad, err = list[i], readErr
					}
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return bad, err
}

// allChunks lists the chunks of size bytes of weights.
func allChunks(size int64) []int64 {
	list := make([]int64, chunkCount(size))
	for i := range list {
		list[i] = int64(i)
	}
	return list
}

// digestTest returns a test that compares the SHA-256 of chunks of the weights at base with digests.
func digestTest(r io.ReaderAt, base int64, digests []byte) chunkTest {
	return func(i, off, size int64, buf []byte) (bool, error) {
		var sum [digestSize]byte
		h := sha256.New()
		err := readPieces(r, base+off, size, buf, h)
		h.Sum(sum[:0])
		return bytes.Equal(sum[:], digests[i*digestSize:][:digestSize]), err
	}
}

// crcTest returns a test that compares chunks at base with their CRC-32C. It takes a fifth of the time of the digests.
// It is for reading back a file that was just written, when nobody can have forged it.
func crcTest(r io.ReaderAt, base int64, crcs []uint32) chunkTest {
	return func(i, off, size int64, buf []byte) (bool, error) {
		h := crc32.New(castagnoli)
		err := readPieces(r, base+off, size, buf, h)
		return h.Sum32() == crcs[i], err
	}
}

// chunkWriter writes the weights section in order and computes its digests. Several goroutines hash and write chunks
// while the next ones are filled. It needs the memory of a few chunks, however large the model is.
type chunkWriter struct {
	outer   context.Context // caller's context
	ctx     context.Context // also ends at the first error
	g       *errgroup.Group
	f       io.WriterAt
	base    int64 // offset of the section in the file
	off     int64 // bytes written so far
	cur     []byte
	free    chan []byte
	jobs    chan chunkJob
	digests []byte   // SHA-256 of the chunks, one after another
	crcs    []uint32 // CRC-32C of the chunks, for reading back
}

type chunkJob struct {
	index int64
	data  []byte
}

func newChunkWriter(ctx context.Context, f io.WriterAt, base, size int64) *chunkWriter {
	n := workerCount()
	w := &chunkWriter{outer: ctx, f: f, base: base, free: make(chan []byte, n+2), jobs: make(chan chunkJob),
		digests: make([]byte, chunkCount(size)*digestSize), crcs: make([]uint32, chunkCount(size))}
	w.g, w.ctx = errgroup.WithContext(ctx)
	for range min(int64(n+2), chunkCount(size)) {
		w.free <- make([]byte, 0, min(size, ChunkSize))
	}
	for range n {
		w.g.Go(func() error {
			for j := range w.jobs {
				if _, err := f.WriteAt(j.data, base+j.index*ChunkSize); err != nil {
					return err
				}
				startWriteback(f, base+j.index*ChunkSize, int64(len(j.data)))
				sum := sha256.Sum256(j.data)
				copy(w.digests[j.index*digestSize:], sum[:])
				w.crcs[j.index] = crc32.Checksum(j.data, castagnoli)
				w.free <- j.data[:0]
			}
			return nil
		})
	}
	return w
}

// Write takes the next bytes. An error means only that writing has stopped; finish returns the cause.
func (w *chunkWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		if w.cur == nil {
			select {
			case w.cur = <-w.free:
			case <-w.ctx.Done():
				return total - len(p), w.ctx.Err()
			}
		}
		n := min(len(p), ChunkSize-len(w.cur))
		w.cur = append(w.cur, p[:n]...)
		p = p[n:]
		w.off += int64(n)
		if len(w.cur) == ChunkSize {
			if err := w.send(); err != nil {
				return total - len(p), err
			}
		}
	}
	return total, nil
}

func (w *chunkWriter) send() error {
	select {
	case w.jobs <- chunkJob{(w.off - 1) / ChunkSize, w.cur}:
		w.cur = nil
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// finish sends the last chunk, unless writing has failed, and waits until all are written. Then the digests are
// complete.
func (w *chunkWriter) finish(failed bool) error {
	if !failed && len(w.cur) > 0 {
		_ = w.send() // the group returns the same error
	}
	close(w.jobs)
	if err := w.g.Wait(); err != nil {
		return err
	}
	return w.outer.Err()
}
