// Package driver is Metal for package gpu, without cgo. Only bridge_darwin.go calls the system. Everything else compiles on any system and is tested on
// Linux, where the tests replace Objective-C by objects that follow Metal's rules and have the shim run the kernels (docs/metal.md).
//
// table.go lists all that the driver knows of Objective-C: functions, messages with their declarations, structs and constants.
package driver
