package arch

import "strings"

// joint separates the parts of a joined name. Names of tensors do not contain it.
const joint = "|"

// Join returns the name for the rows (first axis) of several tensors, one after another. A checkpoint that has all of
// these tensors, with one element type and shape, also has the joined one. It lets one product compute the projections
// of q, k and v.
func Join(names ...string) string { return strings.Join(names, joint) }

// Parts returns the names that were given to Join, or the name itself if it is not joined.
func Parts(name string) []string { return strings.Split(name, joint) }
