// Package sysmem reports the memory of a machine with Windows.
//
// The package imports nothing of this module.
package sysmem
