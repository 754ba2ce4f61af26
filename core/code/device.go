package code

import "github.com/rlx-go/rlx/core/diag"

// Of devices and runs. Package core/device names them for backends.
var (
	NoDevice = diag.Define("RLX6001", "no device", `
The backend started but found no device that it can use. For a GPU backend this usually means that no driver is installed.`)
	Lost = diag.Define("RLX5001", "backend lost", `
The backend's process ended, missed a deadline, or broke the protocol. The message names the step if it is known. The artifact and
the host are unharmed. Run again, and report the backend's log if it happens again.`)
	SoftwareDevice = diag.Define("RLX6005", "only a software device", `
The backend found no device but one that the processor emulates, such as Mesa's lavapipe. It computes many times more slowly than
"--backend cpu", so it is used only on request: "--device software", or the device's ID as "rlxrun devices" lists it. If the machine has a
GPU, install its driver.`)
	Device = diag.Define("RLX6002", "device error", `
The device or its library reported an error. The message names the step if it is known.`)
	DeviceLost = diag.Define("RLX6004", "device lost", `
The driver lost the device, usually because a shader ran too long, or because the device failed or was removed. Run again. The
system's log may have the driver's reason.`)
	Level = diag.Define("RLX6003", "processor below the artifact's target", `
The artifact was compiled for a target such as "cpu:x86-64-v4", which requires a processor of at least that level. x86-64-v3 is
AVX2, FMA and F16C; x86-64-v4 adds AVX-512 F, BW, DQ and VL; arm64 is any 64-bit ARM processor. RLX_CPU_FEATURES, if set, hides
features above the set that it names. Nothing was executed. Run the artifact on a processor that has the level, or
compile it again with a lower one (rlxc --target cpu:x86-64-v3) or none (--target cpu).`)
	Unsupported = diag.Define("RLX7001", "unsupported op", `
The backend does not run an op, element type or size of the program, or does not support the precision given with --precision.
Compile for another target, choose another backend, or leave --precision out.`)
	Memory = diag.Define("RLX8001", "not enough memory", `
The program's arena, weights, inputs and the scratch memory of its kernels do not fit the memory that is free or allowed. The message
lists them. --memory changes the limit.`)
	Input = diag.Define("RLX3001", "bad input tensor", `
An input's type, shape or value is not what the program takes; the message names the input.`)
	State = diag.Define("RLX3002", "state is not valid", `
A run failed or was cancelled while it updated the state, so the state is incomplete. Reset it, import its contents, or clone another
one.`)
	NaN = diag.Define("RLX1003", "a step produced NaN", `
With --check-nan, the results of all steps are searched for NaN. The table has the first three such values, with the elements around the
first NaN. The message names the first. If its operands are good, it also says which part of the op made the NaN, or that the reference
makes none of the same operands: then the backend is wrong.`)
)

// Of values in tensors, and of the settings of backends.
var (
	Index = diag.Define("RLX3101", "index out of range", `
A gather read an index that is negative or beyond the axis it gathers from. Indices come from the inputs. The message gives the
position of the index, its value and the allowed range.`)
	Division = diag.Define("RLX3102", "integer division by zero", `
An element of an integer tensor was divided by zero, or zero was raised to a negative power. Integers have no infinity, so there is no
result. Check the values of the inputs, or cast to a float type in the model.`)
	Features = diag.Define("RLX2101", "processor features not available", `
RLX_CPU_FEATURES, or the option of the CPU backend, names an instruction set that this processor lacks or that the backend does not
know. The message lists the available ones. Leave it unset to use the best one.`)
	API = diag.Define("RLX2102", "unknown graphics API", `
WGPU_BACKEND names an API that the wgpu backend does not know. The message lists the known ones; separate several with commas. Leave it
unset to use what the machine has.`)
)
