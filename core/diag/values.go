package diag

// Codes of the computation itself. They stand here because kernels report them, which import nothing but element types, and
// because every command explains them without linking a kernel.

// IndexOutOfRange is an index in a tensor that names no row.
var IndexOutOfRange = Define("RLX3101", "index out of range", `
A gather read an index that is negative or not below the extent of the axis it gathers from. Indices come from the inputs:
the message names the position of the index, its value and the allowed range.`)

// DivisionByZero is an integer division by zero in a tensor.
var DivisionByZero = Define("RLX3102", "integer division by zero", `
An element of an integer tensor was divided by zero, or zero was raised to a negative power. Integers have no infinity to
stand for the result: check the values of the inputs, or cast to a float type in the model.`)

// UnknownFeatures is an instruction set that this processor lacks or that does not exist.
var UnknownFeatures = Define("RLX2101", "processor features not available", `
RLX_CPU_FEATURES, or the option of the CPU backend, names an instruction set that this processor does not have or that the
backend does not know. The message lists those that can be used here. Leave it unset to use the best one.`)

// UnknownAPI is a graphics API that the wgpu backend does not know.
var UnknownAPI = Define("RLX2102", "unknown graphics API", `
WGPU_BACKEND names an API that the wgpu backend does not know. The message lists those that it does; several stand with
commas between them. Leave it unset to use whatever the machine has.`)
