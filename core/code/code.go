// Package code defines the error codes of parts that only one of the commands links, so that rlxc and rlxrun each explain
// every code. All other codes are defined beside the code that reports them.
//
// It imports core/diag only.
package code

import "github.com/rlx-go/rlx/core/diag"

// Of the compiler, which rlxrun does not link.
var (
	Target = diag.Define("RLX2002", "unknown target", `
A target is one of those that the message lists, or a file with a target description, given with a slash or the ending .target
(./npu.target). "rlxrun plugins describe NAME -o NAME.target" writes the file for a backend. "cpu:LEVEL" is "cpu" for processors
of at least that level.`)
	GraphText = diag.Define("RLX3061", "bad graph in text form", `
The file has graphs in text form, as "rlxc --dump in=-" prints them: a line "graph NAME" for each, symbols, nodes and a return. The message
has the line, what was found and what is wanted. spec/ops.md lists the ops and their attributes. With --weights, the file must have each
param by its name, in its type.`)
	TargetFile = diag.Define("RLX3060", "bad target description", `
The file given to --target cannot be read, or is no target description. The message says in which line and column, what was found
and what is wanted there. spec/target.md has the language.`)
	Untaken = diag.Define("RLX7002", "op that a target does not run", `
The model has an op that the target runs neither by a kernel nor by reference, and that cannot be expressed in ops that it runs. The
message names the op, its types, the layer, and what is missing. Compile for another target, let another backend run such ops
(--fallback NAME: the method then runs in pieces), or add a rule to the description if the backend does run the op. A method that keeps
a state must have one backend for all that reads or updates it.`)

	CheckpointRead = diag.Define("RLX3010", "checkpoint cannot be read", `
The checkpoint is missing, is not a regular file, or the operating system refused to read it. A checkpoint is a
.safetensors file, a model.safetensors.index.json beside its shards, or a directory that holds one of the two.`)
	CheckpointHeader = diag.Define("RLX3011", "not a valid safetensors file", `
The file does not begin with a safetensors header: eight bytes of length and that many bytes of JSON, at most 100 MB,
without duplicate keys. The file may be cut short, may be another format (convert .pth and .bin files to
safetensors first), or may be damaged; fetch it again.`)
	CheckpointTensor = diag.Define("RLX3012", "bad tensor in a safetensors file", `
The header describes a tensor that cannot be: its size does not follow from its shape and element type, its bytes
overlap another tensor's, leave a hole, or lie outside the file. The file is damaged or was made by a faulty writer.`)
	CheckpointIndex = diag.Define("RLX3013", "bad index of a sharded checkpoint", `
model.safetensors.index.json maps every tensor to the shard that holds it. Shards are plain file names ending in
.safetensors in the directory of the index; every tensor must be in exactly the shard that is named for it, and the
shards must hold no other tensors.`)
	CheckpointDType = diag.Define("RLX3014", "element type cannot be used for weights", `
Weights must be F64, F32, F16 or BF16. Integer, boolean and 8-bit float tensors are listed but cannot become weights:
store the tensor as one of the four types.`)
	CheckpointMissing = diag.Define("RLX3015", "no such tensor", `
The checkpoint has no tensor of the name the model needs.`)

	GGUF = diag.Define("RLX3090", "not a valid GGUF file", `
The file does not begin with the header of a GGUF file, version 2 or 3, little-endian; or it is cut short; or its metadata or the
places of its tensors contradict each other. Of a model in several files, name the first, with the others beside it. Fetch the file
again.`)
	GGUFFeature = diag.Define("RLX3091", "GGUF feature that is not supported", `
The GGUF file holds an architecture, an element type, a tokenizer or a setting that this version does not know. Without it the model
would compute something else. The message names it. --set does not help; convert the model from its original checkpoint, or wait for
a version that knows it.`)

	Architecture = diag.Define("RLX3050", "architecture not recognised", `
The tensors of the checkpoint do not identify one model family for sure. The message lists the evidence. If you know the
family, name it with --arch.`)
	ModelTensor = diag.Define("RLX3051", "checkpoint does not fit the architecture", `
A tensor is missing, superfluous, or has another shape or element type than the model needs. The message names it.`)
	ModelConfig = diag.Define("RLX3052", "bad model configuration", `
A value of the model's configuration (config.json, --model-config or --set) is unknown, malformed, or contradicts the shapes
of the checkpoint's tensors. The message names the key and where it came from.`)
)

// Of rlxrun.
var (
	Conformance = diag.Define("RLX1202", "a backend fails the conformance suite", `
"rlxrun plugins test" found results that differ from the definitions of the ops, or behaviour that differs from the protocol. The table
names the checks. A check does not depend on chance: it fails again with the same command. spec/ops.md and spec/protocol.md say what is
right; -o OP makes the checks of one op.`)
	Check = diag.Define("RLX1201", "a step differs from the reference", `
--check was given: each step's result was compared with the reference evaluation of its op on the same operands, and the
named step is the first that is further from it than the op's tolerance allows. This is a bug of the backend.`)

	ChatTemplate = diag.Define("RLX3085", "bad chat template", `
The model's chat template is not Jinja, or uses a block, filter, test or method that this version does not know. The message gives the
line. Without the template, give a prompt that has the model's own marks in it.`)
	ChatRender = diag.Define("RLX3086", "chat template cannot be applied", `
The model's chat template met an error in this conversation: it refused it (often because roles must alternate, or because the model
knows no system prompt), used something that is not defined, or took too many steps or too much memory. The message gives the reason.`)

	NpyRead = diag.Define("RLX3020", "tensor file cannot be read", `
The .npy file is missing or the operating system refused to read it.`)
	NpyFormat = diag.Define("RLX3021", "not a usable .npy file", `
The file is not a .npy file of version 1 or 2 with a little-endian tensor of floats, integers or booleans in C order, or
its length does not follow from its shape. numpy.save(path, numpy.ascontiguousarray(a)) writes one that is.`)
	NpyDType = diag.Define("RLX3022", "element type has no .npy form", `
NumPy has no bfloat16. Widen the tensor to f32 first.`)

	Images = diag.Define("RLX3031", "images failed", `
Some of the images of --images could not be used; each is named with its error. The others are done. Run the command again after mending
them: images that are done are not done again.`)

	InputTensor = diag.Define("RLX3201", "tensor cannot be read from the safetensors file", `
The file given as an input (-i NAME=@FILE.safetensors:KEY) is missing, is not a regular file, is damaged (a key twice, bytes of no
tensor or of two), or holds no tensor of that name. The message says which, or lists the names there are.`)
	ArtifactRead = diag.Define("RLX3202", "artifact cannot be read", `
The file was opened and then could not be read: a disk or network fault, or the file was cut short meanwhile.`)

	PluginSource = diag.Define("RLX3210", "plugin cannot be installed from this file", `
"rlxrun plugins install" takes an executable called rlx-backend-NAME, a directory or an archive (tar, tar.gz, zip) with one at its top. The
archive is damaged; or has an entry with an absolute path, with "..", twice, or that is a link or a device; or unpacks to more than an
archive of its size may; or its plugin.json is wrong. The message says which. Nothing was installed.`)

	Backend = diag.Define("RLX5201", "unknown backend", `
No backend of that name was found. A backend is an executable called rlx-backend-NAME beside rlxrun's own, or in one of the
directories of RLX_PLUGIN_PATH, or a plugin that "rlxrun plugins install" installed, or any executable given with --plugin NAME=PATH.
"rlxrun plugins list" shows those found.`)
	PluginRefused = diag.Define("RLX5203", "plugin refused", `
The backend was found and not executed. Its file, or a directory above it, can be written to by other users, who could so run a program in
your name; or RLX_PLUGIN_PATH names a directory relative to the current one; or an installed plugin is for another platform or version of the
backend protocol, or its manifest is damaged; or the folder of plugins cannot be read or written to. The message says which. --plugin
NAME=PATH runs an executable wherever it is.`)
	PluginTaken = diag.Define("RLX5204", "plugin's name is taken", `
A plugin of that name is installed, or a built-in backend has the name. --replace installs in place of a plugin, and
--hide-built-in in place of a built-in backend, which is then not used before the plugin is removed.`)
)
