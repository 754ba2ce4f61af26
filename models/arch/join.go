package arch

import (
	"strconv"
	"strings"
)

// joint separates the parts of a joined name. Names of tensors do not contain it.
const joint = "|"

// Join returns the name for the rows (first axis) of several tensors, one after another. A checkpoint that has all of
// these tensors, with one element type and shape, also has the joined one. It lets one product compute the projections
// of q, k and v.
func Join(names ...string) string { return strings.Join(names, joint) }

// Parts returns the names that were given to Join, or the name itself if it is not joined.
func Parts(name string) []string { return strings.Split(name, joint) }

// cut separates the name of a tensor from the number and count of a slice.
const cut = "@"

// Slice returns the name for slice i of the rows (first axis) of a tensor that is cut into n equal parts. A checkpoint
// that has the tensor, with a number of rows that n divides, also has its slices. It separates the projections of q, k
// and v that a checkpoint has in one tensor.
func Slice(name string, i, n int) string {
	return name + cut + strconv.Itoa(i) + cut + strconv.Itoa(n)
}

// Sliced returns what was given to Slice, or the name itself with 0 and 1 if it is not a slice.
func Sliced(slice string) (name string, i, n int) {
	parts := strings.Split(slice, cut)
	if len(parts) == 3 {
		i, errI := strconv.Atoi(parts[1])
		n, errN := strconv.Atoi(parts[2])
		if errI == nil && errN == nil && i >= 0 && i < n {
			return parts[0], i, n
		}
	}
	return slice, 0, 1
}

// Tensors returns the names of the tensors of a checkpoint that a name stands for, which may be joined or a slice.
func Tensors(name string) []string {
	all := Parts(name)
	for i, part := range all {
		all[i], _, _ = Sliced(part)
	}
	return all
}
