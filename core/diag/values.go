package diag

// Codes of the computation itself. They are defined here because kernels, which import little else, report them, and
// every command explains them without linking a kernel.

// IndexOutOfRange is an index outside the axis that it indexes.
var IndexOutOfRange = Define("RLX3101", "index out of range", `
A gather read an index that is negative or beyond the axis it gathers from. Indices come from the inputs. The message gives the
position of the index, its value and the allowed range.`)

// DivisionByZero is an integer division by zero in a tensor.
var DivisionByZero = Define("RLX3102", "integer division by zero", `
An element of an integer tensor was divided by zero, or zero was raised to a negative power. Integers have no infinity, so there is no
result. Check the values of the inputs, or cast to a float type in the model.`)

// UnknownFeatures is an instruction set that this processor lacks or that does not exist.
var UnknownFeatures = Define("RLX2101", "processor features not available", `
RLX_CPU_FEATURES, or the option of the CPU backend, names an instruction set that this processor lacks or that the backend does not
know. The message lists the available ones. Leave it unset to use the best one.`)

// UnknownAPI is a graphics API that the wgpu backend does not know.
var UnknownAPI = Define("RLX2102", "unknown graphics API", `
WGPU_BACKEND names an API that the wgpu backend does not know. The message lists the known ones; separate several with commas. Leave it
unset to use what the machine has.`)
