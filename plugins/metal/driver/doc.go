// Package driver implements the interfaces of package gpu with Metal, without cgo. Only bridge_darwin_arm64.go calls
// the system. All other files compile on any system and are tested on Linux, where a fake replaces Objective-C: it
// enforces Metal's rules and lets package shim run the kernels (docs/metal.md).
//
// table.go declares everything that the driver uses of Objective-C: functions, messages, structs and constants.
package driver
