package values

import (
	"os"

	"github.com/rlx-go/rlx/core/dtype"
	"github.com/rlx-go/rlx/core/tensor"
)

// A Spool keeps the values of a run in a temporary file, because together they may be larger than the memory.
type Spool struct {
	file *os.File
	size int64
	at   map[string]stored
}

type stored struct {
	dtype  dtype.DType
	shape  []int
	offset int64
	bytes  int
}

// NewSpool makes a Spool in the folder for temporary files.
func NewSpool() (*Spool, error) {
	f, err := os.CreateTemp("", "rlx-values")
	if err != nil {
		return nil, err
	}
	os.Remove(f.Name()) // the open file stays usable; where this fails, Close tries again
	return &Spool{file: f, at: map[string]stored{}}, nil
}

// Close removes the file.
func (s *Spool) Close() {
	s.file.Close()
	os.Remove(s.file.Name())
}

// Put stores a value under a name.
func (s *Spool) Put(name string, t tensor.Tensor) error {
	if _, err := s.file.WriteAt(t.Data, s.size); err != nil {
		return err
	}
	s.at[name] = stored{t.DType, t.Shape, s.size, len(t.Data)}
	s.size += int64(len(t.Data))
	return nil
}

// Get returns a value. ok is false if no value has that name.
func (s *Spool) Get(name string) (t tensor.Tensor, ok bool, err error) {
	v, ok := s.at[name]
	if !ok {
		return t, false, nil
	}
	t = tensor.Tensor{DType: v.dtype, Shape: v.shape, Data: tensor.AlignedBytes(v.bytes)}
	_, err = s.file.ReadAt(t.Data, v.offset)
	return t, true, err
}
