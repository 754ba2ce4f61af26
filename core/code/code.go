// Package code defines every error code, with its title and its text for `rlxc explain` and `rlxrun explain`. Both
// commands explain all codes, also those of parts that they do not link. Package diag has the names of a few codes that
// it knows itself, and core/device those that backends report.
//
// It imports core/diag only.
package code

import "github.com/rlx-go/rlx/core/diag"

// Of the compiler, which rlxrun does not link.
var (
	Target = diag.Define("RLX2002", "unknown target", `
A target is one of the names in the message, or a target description file: a path with a slash or the ending .target (./npu.target).
"rlxrun plugins describe NAME -o NAME.target" writes that file for a backend. "cpu:LEVEL" is "cpu" for processors of at least that
level.`)
	GraphText = diag.Define("RLX3061", "bad graph in text form", `
The file must hold graphs in text form, as "rlxc --dump in=-" prints them: for each a line "graph NAME", symbols, nodes and a return. The
message gives the line, what was found and what was expected. spec/ops.md lists the ops and their attributes. A file given with --weights
must have every param by its name and in its type.`)
	TargetFile = diag.Define("RLX3060", "bad target description", `
The file given to --target cannot be read or is not a target description. The message gives the line and column, what was found and what
was expected. spec/target.md defines the language.`)
	OpFile = diag.Define("RLX3062", "bad definition of an op", `
The file given to --op cannot be read or does not define ops. The message gives the line, what was found and what is allowed. A definition has
a line "op NAME", attributes, and a graph "expansion" that says what the op means in terms of other ops; docs/custom-ops.md describes it. A
graph "pattern" must compute the same as the expansion.`)
	UnknownOp = diag.Define("RLX3063", "op without a definition", `
The model has an op that is not one of RLX (spec/ops.md), and no definition says what it means. Give the file with its definition (--op FILE;
docs/custom-ops.md), or correct the name.`)
	Gradient = diag.Define("RLX3064", "gradient that is not defined", `
A gradient is that of one number, the loss: a float without axes. It is taken with respect to float values of the same graph. Reduce the
result to one number first (reduce_sum, reduce_mean), and leave out integers and bools. docs/gradients.md describes gradients.`)
	NoGradient = diag.Define("RLX7003", "op without a gradient", `
The loss depends on a value whose gradient is wanted through an op that has no gradient rule, or whose rule does not cover the node's
attributes. The message names the op, the node, and the path from it to the loss. Use other ops there, or take the gradient with respect to
other values. docs/gradients.md lists what has no gradient.`)
	Untaken = diag.Define("RLX7002", "op that a target does not run", `
The target does not run an op of the model, neither by a kernel nor by the reference, and the compiler cannot rewrite it in terms of ops
that the target runs. The message names the op, its types, the layer, and what is missing. Compile for another target, let another backend
run such ops (--fallback NAME), or add a rule to the target description if the backend does run the op. All ops that read or update the
same state must run on one backend. rlxc MODEL --target NAME --gaps lists all that the target lacks at once, and rules with which it would run
the model.`)

	Stages = diag.Define("RLX7004", "methods that cannot be divided into stages", `
rlxc --stages N divides each method into N parts for as many devices. Each part needs matrix products or other work with weights of its
own, all ops that use a state must be in one part, and a part reads only what earlier ones compute. Choose a smaller N.`)

	CheckpointRead = diag.Define("RLX3010", "checkpoint cannot be read", `
The checkpoint is missing, is not a regular file, or cannot be read. A checkpoint is a .safetensors file, a model.safetensors.index.json
beside its shards, a directory with either, or a .gguf file.`)
	CheckpointHeader = diag.Define("RLX3011", "not a valid safetensors file", `
A safetensors file begins with eight bytes of length and that many bytes of JSON, at most 100 MB, without duplicate keys. This file may
be truncated or damaged (download it again), or have another format (convert .pth and .bin files to safetensors first).`)
	CheckpointTensor = diag.Define("RLX3012", "bad tensor in a safetensors file", `
The header describes an impossible tensor: its size does not match its shape and element type, or its bytes overlap another tensor,
leave a gap, or lie outside the file; or a BOOL is neither 0 nor 1. The file is damaged, or a faulty program wrote it.`)
	CheckpointIndex = diag.Define("RLX3013", "bad index of a sharded checkpoint", `
model.safetensors.index.json maps every tensor to its shard. Shards are plain file names ending in .safetensors, in the directory of the
index. Every tensor must be in exactly the shard named for it, and shards must hold no other tensors.`)
	CheckpointDType = diag.Define("RLX3014", "element type cannot be used for weights", `
Weights of models are F64, F32, F16 or BF16, and params of graphs in text form also I64, I32, I16, I8, U32, U8 and BOOL. 8-bit floats,
complex numbers and other integers cannot become weights, and only floats are converted to another type: store the tensor in the type
that is wanted.`)
	CheckpointMissing = diag.Define("RLX3015", "no such tensor", `
The checkpoint lacks a tensor that the model needs.`)

	GGUF = diag.Define("RLX3090", "not a valid GGUF file", `
The file does not begin with a GGUF header (version 2 or 3, little-endian), is truncated, or its metadata and tensor positions contradict
each other. Download the file again. For a model in several files, name the first and keep the others beside it.`)
	GGUFFeature = diag.Define("RLX3091", "unsupported GGUF feature", `
The GGUF file has an architecture, element type, tokenizer or setting that this version does not support. Without it the results would be
wrong. The message names it. --set does not help: compile the original checkpoint instead, or use a newer version.`)

	Splats = diag.Define("RLX3092", "not a PLY file of Gaussian splats", `
The file is not a binary little-endian PLY file with one element, vertex, whose properties are floats, among them those that programs
for 3D Gaussian splatting write, and no compressed file of SuperSplat or PlayCanvas; or it is truncated, or a splat has a number that is not
finite or a rotation of 0. The message says which.`)

	Views = diag.Define("RLX3093", "bad images or cameras of a scene", `
A folder of images to fit a scene to has their cameras in COLMAP's text format (cameras.txt, images.txt and points3D.txt, in the folder
or its sparse/0) or in transforms.json, as programs for NeRF write it. The message names the line or the image at fault: a camera model that is not
supported, a camera or an image that is missing, or an image of another size than its camera.`)

	Architecture = diag.Define("RLX3050", "architecture not recognised", `
The tensors of the checkpoint do not clearly identify one model family. The message lists the evidence. If you know the family, name it
with --arch.`)
	ModelTensor = diag.Define("RLX3051", "checkpoint does not fit the architecture", `
A tensor is missing or unexpected, or its shape or element type is not what the model needs. The message names it.`)
	ModelConfig = diag.Define("RLX3052", "bad model configuration", `
A value in the model's configuration (config.json, --model-config or --set) is unknown, malformed, or contradicts the shapes of the
tensors. The message names the key and its source.`)
)

// Of rlxrun.
var (
	Slower = diag.Define("RLX1208", "a measurement is slower than an earlier one", `
"rlxrun bench --compare FILE" compares the median time with that of FILE. The 95 % confidence interval of their ratio, by resampling both
sets of runs, lies above 1. Another program that ran meanwhile may be the reason: measure both again, in turn.`)
	ReceiptDiffers = diag.Define("RLX1209", "a run differs from its receipt", `
"rlxrun verify-receipt" has repeated the run of a receipt. Its results are not those of the receipt, byte by byte on the same device, or within
tolerances on another. The message names the first result that differs. On the same device that is a bug, or the receipt is not of this run; the
versions of RLX and of the backend are in the receipt.`)
	Receipt = diag.Define("RLX2050", "not a receipt that can be verified", `
The file is no receipt, was changed after it was signed or is signed by another key; or the artifact or an input is not there or has another digest than
in the receipt; or the key is no Ed25519 key in PEM. The message says which. Files that lie elsewhere now are named after the receipt.`)
	Doctor = diag.Define("RLX1207", "no backend works on this machine", `
"rlxrun doctor" started every backend that it found, and none has a device, other than one that the processor emulates. Its output says
what to do about each.`)
	Conformance = diag.Define("RLX1202", "a backend fails the conformance suite", `
"rlxrun plugins test" found results that differ from the definitions of the ops (spec/ops.md), or behaviour that differs from the protocol
(spec/protocol.md). The table names the checks. Checks are deterministic: the same command fails again. -o OP runs the checks of one op.`)
	Source = diag.Define("RLX1204", "a compiled method differs from its source", `
With rlxc --check, each value of the model's graph is computed by the compiled method, with the reference definitions of its ops, and
compared with the op of the graph. The named value is the first that differs by more than the op's tolerance, or that the compiled method cannot
compute. A difference is a bug in the compiler.`)

	Unchecked = diag.Define("RLX1203", "a backend was not checked completely", `
"rlxrun plugins test" found no failure, but it could not make all checks of the protocol, because it knows no program that the backend's
description takes, or the backend has no device. The output names the checks and the reason. A backend passes only if it has been checked.`)
	Check = diag.Define("RLX1201", "a step differs from the reference", `
With rlxrun --check, each step's result is compared with the reference definition of its op on the same operands. The named step is the first
that differs by more than the op's tolerance. This is a bug in the backend.`)

	Inf = diag.Define("RLX1206", "a step produced an infinity", `
With --check-inf, the results of all steps are searched for infinities that a step made of finite operands, by an overflow, a division by
0 or a logarithm of 0. Infinities of constants, weights, inputs and attributes, such as a mask's, and what is computed from them, do not
count. See RLX1003 for the table and the message.`)
	Differs = diag.Define("RLX1205", "a value differs", `
"rlxrun diff" compares the values of two runs, and --expect the outputs of a run with a file. The message names the first value that
differs by more than the op's tolerance and --tolerance allow. With --bisect, it names the first step that is wrong by itself: the reference
has another result for the operands that the backend had. That is a bug in the backend; --minimize makes a file that shows it. If no step
is wrong by itself, small errors have added up, as they do with a lower precision.`)

	ChatTemplate = diag.Define("RLX3085", "bad chat template", `
The model's chat template is not valid Jinja, or uses a block, filter, test or method that this version does not know. The message gives
the line. As a workaround, leave out --chat and write the model's special tokens into the prompt yourself.`)
	ChatRender = diag.Define("RLX3086", "chat template cannot be applied", `
The model's chat template failed for this conversation. It rejected it (often because roles must alternate, or because the model has no
system prompt), used something undefined, or needed too many steps or too much memory. The message gives the reason.`)

	Conversation = diag.Define("RLX3088", "conversation cannot be used", `
A file that rlxrun chat --load or /load reads is one that --save or /save wrote: JSON with the system prompt and the messages. The state
beside it, NAME.state, is optional: without it, or with one of another model, the conversation is computed again.`)
	Adapter = diag.Define("RLX3087", "adapter cannot be used", `
The folder of --lora is no LoRA adapter as PEFT saves it (adapter_config.json, adapter_model.safetensors), is of a kind that is not
supported, such as DoRA, or does not fit the model: another size, a layer that has no place for an adapter, or a rank above that of
rlxc --lora. The message says which.`)

	NpyRead = diag.Define("RLX3020", "tensor file cannot be read", `
The .npy file is missing or the operating system refused to read it.`)
	NpyFormat = diag.Define("RLX3021", "not a usable .npy file", `
The file must be a .npy file of version 1 or 2 with a little-endian tensor of floats, integers or booleans in C order, and its length must
match its shape. numpy.save(path, numpy.ascontiguousarray(a)) writes such a file.`)
	NpyDType = diag.Define("RLX3022", "element type has no .npy form", `
NumPy has no bfloat16. Convert the tensor to f32 first.`)

	Images = diag.Define("RLX3031", "images failed", `
Some images of --images could not be used. The messages name them; the other images are done. Fix the files and run the command again:
it skips images that are done.`)

	InputTensor = diag.Define("RLX3201", "tensor cannot be read from the safetensors file", `
The file given as an input (-i NAME=@FILE.safetensors:KEY) is missing, not a regular file, damaged (duplicate keys, gaps or overlaps), or
has no tensor of that name. The message says which, or lists the available names.`)
	ArtifactRead = diag.Define("RLX3202", "artifact cannot be read", `
The file was opened but then could not be read: a disk or network error, or the file was truncated meanwhile.`)

	Capsule = diag.Define("RLX3206", "capsule cannot be used", `
"rlxrun replay" reads capsules, which --capsule writes when a run fails. The file is missing, damaged, of another version, or its parts do
not fit its programs. The message says which.`)

	OtherModel = diag.Define("RLX3203", "saved state of another model", `
A state, such as a key-value cache, holds numbers that the weights and settings of one model have produced. With another model it would
give wrong results, even if the shapes are the same. So a saved state names its artifact by digest ("rlxc inspect FILE meta" prints it as
root) and works only with that artifact, on any backend. Compiling the same checkpoint again with the same rlxc and flags gives the same
artifact. After any other change, compute the state again: run the prompt once more with --save-state.`)

	StateDamaged = diag.Define("RLX3204", "saved state is damaged", `
A file of --save-state ends with the SHA-256 of all bytes before it. The bytes are not those that were saved: the file was damaged or
edited. A file of an older version has no digest and is refused, too. Restore the file from a copy, or compute the state again: run the
prompt once more with --save-state.`)

	WeightFixed = diag.Define("RLX3205", "weight cannot be replaced", `
A session can give a weight other values (--weights) only if the compiler has not computed constants from the old ones. It has done so with
this weight, or the weight is such a constant. Compile the model again with rlxc --mutable-weights NAME, or a pattern such as '*.bias'.
"rlxc inspect FILE weights" lists which weights can be replaced.`)

	PluginSource = diag.Define("RLX3210", "plugin cannot be installed from this file", `
"rlxrun plugins install" takes an executable called rlx-backend-NAME, or a directory or archive (tar, tar.gz, zip) with one at its top. It
refuses an archive that is damaged, has an absolute path, a path with "..", a duplicate entry, a link or a device, or unpacks to too many
bytes, and a wrong plugin.json. The message says which. Nothing was installed.`)

	Registry = diag.Define("RLX3220", "artifact not in the registry", `
rlxc push and rlxc pull store artifacts in an OCI registry and fetch them. The reference is not REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST,
the registry cannot be reached, refuses the password, does not have the artifact or sent other bytes, or the reference means something else,
such as a container image. The message says which. Call the command again after an interruption: pull continues where it ended.`)

	Backend = diag.Define("RLX5201", "unknown backend", `
No backend of that name was found. rlxrun looks for an executable called rlx-backend-NAME beside itself, in the directories of
RLX_PLUGIN_PATH, and among the plugins that "rlxrun plugins install" installed. --plugin NAME=PATH names any other executable.
"rlxrun plugins list" shows the backends it finds.`)
	PluginRefused = diag.Define("RLX5203", "plugin refused", `
The backend was found but not executed, for one of these reasons. Other users own its file or a directory above it, or can write to one, so they could
replace the program that you run. RLX_PLUGIN_PATH names a directory relative to the current one. An installed plugin is for another platform
or protocol version, or its manifest is damaged. The plugin folder cannot be read or written to. The message says which. --plugin NAME=PATH
runs an executable wherever it is.`)
	PluginTaken = diag.Define("RLX5204", "plugin's name is taken", `
A plugin or a built-in backend already has that name. --replace replaces the plugin. --hide-built-in lets the plugin hide the built-in
backend until you remove the plugin.`)
)
