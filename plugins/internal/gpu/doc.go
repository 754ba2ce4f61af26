// Package gpu implements the code that all GPU backends share. It plans the buffers of a program, uploads its weights,
// records and submits the commands of its runs, and manages states. It uses WebGPU, Metal and CUDA only through the
// interfaces in driver.go. Buffers, pipelines and bind groups are made when a program is loaded, and the commands of a
// run are recorded during the previous run. Package kernels decides which shaders run an op.
//
// Package gpu imports core and plugins/internal/gpu/kernels, but never format, plugins/rpc or the compiler, so that
// backends can be tested in process.
package gpu
