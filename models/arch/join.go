package arch

import "strings"

// joint separates the parts of a joined name. Names of tensors do not contain it.
const joint = "|"

// Join returns the name of a tensor that a checkpoint does not store as such: the rows (first axis) of several tensors, one after another. A checkpoint
// that has all of these tensors, with one element type and shape, also has the joined one. A projection of q, k and v can then be one product.
func Join(names ...string) string { return strings.Join(names, joint) }

// Parts returns the names that Join was given, or the name itself if it is not joined.
func Parts(name string) []string { return strings.Split(name, joint) }
