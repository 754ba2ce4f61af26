// Package gpu is what the backends for GPUs share: it plans the buffers of a program, uploads its weights, records and submits the commands of its
// runs and keeps its states, on a Device, which is all that it knows of WebGPU or Metal. Buffers, pipelines and operands are made when a program
// is loaded; a run submits commands that were recorded before it. Package kernels decides which shaders run an op; nothing here knows an op.
//
// It imports core and plugins/wgpu/kernels, never format, plugins/rpc or the compiler, so that backends can be tested in process.
package gpu
