// Package release has the version of this module.
package release

// Version is the version of both commands and of the compiler. Artifacts contain it. It must change whenever the
// compiler's output changes, so that equal versions write equal bytes.
const Version = "0.1.0"
