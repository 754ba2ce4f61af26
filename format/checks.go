package format

import (
	"fmt"

	"github.com/rlx-go/rlx/core/diag"
)

// Numbers of the checks that more than one function reports. The list below describes each.
const (
	checkSchema   = 15
	checkState    = 45
	checkSegments = 46
)

// checks are the verifier's checks in order: check k is checks[k-1] and its error RLX4000+k. 1 to 12 are about the
// container, 13 to 16 the encoding, 17 to 21 types and weights, 22 to 28 graphs, 29 to 38 placements and steps, 39 to 44 the
// target and each run (reported by the runtime and the backends), 45 the states, 46 methods in segments.
var checks = [...]struct{ title, text string }{
	{"not a file that can be verified", `
The artifact must be a regular file of at most 2^44 bytes. Pipes, devices and directories are refused, and where the policy asks
for it so are files that other users of the machine may write.`},
	{"not an .rlx artifact of a known version", `
The file does not begin as an artifact does: the magic bytes, the major version of the format, and the sizes of the header and of
a table entry are fixed. If the major version is newer, the file needs a newer rlxrun; if the magic is damaged, the file was
probably transferred in text mode, or is something else.`},
	{"header is damaged", `
The header's CRC-32C does not match, or a reserved byte or an unknown flag is set. The file was damaged on the way: fetch it again.`},
	{"file size differs from the header", `
The header states the size of the file. A shorter file was cut short, usually by an interrupted download; a longer one has had
something appended to it.`},
	{"artifact needs a feature this version lacks", `
A bit of feature_required is set that this version does not know. Ignoring it could change results, so the file is refused: use a
newer rlxrun.`},
	{"section table is out of bounds", `
The number of sections is not between 1 and 64, or the table reaches beyond the end of the file.`},
	{"root digest differs", `
The root is the SHA-256 of the header and the section table. It does not match the file, or not the digest that was asked for:
the file is damaged, forged, or not the expected one.`},
	{"section is out of bounds", `
A section is empty, misaligned, larger than its kind may be, begins inside the table, or reaches beyond the end of the file.`},
	{"sections overlap or leave gaps", `
Sections must follow each other with less than one alignment of zero bytes between them and must end where the file ends, so that
nothing can hide in between.`},
	{"sections are missing, repeated or unknown", `
Each kind of section may be there once; META, GRPH, PLAN and SCHD must be, and TNSR, CHNK and WGTS come together. An unknown
critical section means that the file needs a newer version.`},
	{"section has an unknown schema version", `
A critical section was written with a schema that this version does not know: use a newer rlxrun, or compile the model again.`},
	{"digest of a section differs", `
The SHA-256 of a section, or of one of the 4 MiB chunks of the weights, does not match: the file was damaged on the way or on disk.
Fetch it again or compile the model again.`},
	{"section is not in canonical form", `
A section is one msgpack value of the rlx profile: shortest forms, sorted unique string keys, valid UTF-8, no nil, float32, NaN or
extension. Only a damaged or hand-made file differs.`},
	{"section's nesting or counts are out of bounds", `
A section nests deeper than 16, holds too many values, or a count in it promises more than the bytes that follow.`},
	{"section does not follow its schema", `
A field is missing, unknown, of another type or beyond its limit, or the number of items is not the one in the section table.`},
	{"section does not encode to itself", `
Encoding what was decoded gives other bytes. Only a hand-made file can differ.`},
	{"bad name", `
Names are unique where they are looked up, not empty, at most 512 bytes of printable UTF-8, and those of nodes, outputs and weights
have no spaces or any of , = { } and quotes. Names of methods are 1 to 64 of a-z, 0-9, _ and -, the first a letter.`},
	{"type is beyond the limits", `
An element type is unknown, or a rank, a dimension, the number of elements or the size in bytes is beyond what the format allows.`},
	{"element type is not a whole number of bytes", `
Sub-byte and block element types are not part of this version of the format.`},
	{"weights are not laid out as they must be", `
Weights lie in the order of their offsets, each at the next aligned offset after the one before it, with zero bytes between, as
large as their type says, and together fill the weights section.`},
	{"bad quantization", `
The weight directory names a quantization scheme that this version does not know.`},
	{"op or attributes are unknown", `
A node names an op that this version does not have, or not on this target, or has other operands or attributes than the op takes.
The file may need a newer version.`},
	{"reference to nothing", `
An operand or a parameter refers to a node or a weight that does not exist.`},
	{"graph is not in order", `
An operand refers to its own node or a later one. Nodes only refer to earlier nodes, which also rules out cycles.`},
	{"subgraphs are not supported", `
This version has no ops with subgraphs. The file needs a newer version.`},
	{"declared type differs from the inferred one", `
The type of each node is inferred again from its operands, and that of each parameter compared with the weight's. The op does not
accept its operands, or the file states another type.`},
	{"signature differs from the programs", `
Each method's inputs, outputs and symbols in META must be those of its programs, in order; each method has a program; and the task
names inputs and outputs that exist and have the types and sizes that the task needs, for all values of the symbols.`},
	{"bad symbolic dimension", `
A symbol's range is not 0 <= min <= max <= 2^40, or a dimension refers to a symbol that does not exist or is out of range.`},
	{"bad arena", `
The size of the arena or of the IO space is not a multiple of 256 or is beyond the limit.`},
	{"bad placement", `
Each value has one place: inside its space, aligned to 256 bytes unless it shares another's, and of exactly the size that its type
needs at the upper bounds of the symbols.`},
	{"bad sharing of storage", `
A value may lie inside another only if its op is a view of it, at the offset the op gives, or exactly over an operand that its op may
overwrite.`},
	{"steps do not run the graph", `
Every node that computes something has exactly one step, after the steps of its operands.`},
	{"a step reads bytes that hold something else", `
The steps are played and each byte's owner is followed. A step reads a value that was not written yet or has been overwritten.`},
	{"several queues are not supported", `
This version runs the steps of a program in one queue. The file needs a newer version.`},
	{"a step writes over what it reads", `
A step's result overlaps one of its operands, unless it is in place of exactly that one, or overlaps another of its results.`},
	{"weights would be written", `
A step's result lies in the weights space, which is read-only, or a weight lies elsewhere.`},
	{"inputs and outputs overlap", `
Inputs and outputs have bytes of their own in the IO space, which stay theirs to the end of the run.`},
	{"program is beyond the policy", `
The weights, arena and IO space of a program need more memory than is allowed here, or its estimated work is more than is allowed.`},
	{"backend lacks an op or a size", `
The program uses an op, an element type or a buffer size that the chosen backend does not have. Compile for another target or choose
another backend.`},
	{"backend is not the allowed one", `
The backend's executable has another digest than the one that is allowed, or speaks another version of the protocol.`},
	{"backend did not get the verified program", `
A backend verifies the program it is sent once more. What it received does not pass.`},
	{"input does not fit the program", `
An input of a run has another element type, shape or length than the program takes, or a size is out of its range.`},
	{"index out of range", `
A value that the program uses as an index lies outside the table it indexes.`},
	{"output is not intact", `
An output of a run has another size than the program says, or belongs to another run.`},
	{"bad state", `
A state, which lives from run to run, has one type, one initial value and one range of the state space in all programs. Nothing else
lies in that space but what updates the state, in its place, one update after the other.`},
	{"bad segments", `
A method that several backends run in turn consists of segments, which are programs for this method and with its symbols. What a segment
reads, and each output of the method, is an input of the method or comes from an earlier segment, in the same type. Only segments for the
target of the method keep states.`},
}

var codes = func() (c [len(checks)]diag.Code) {
	for i, e := range checks {
		c[i] = diag.Define(diag.Code(fmt.Sprintf("RLX%d", 4001+i)), e.title, e.text)
	}
	return c
}()

// CodeOf is the code that a failed check reports: RLX4000 + check, for checks 1 to 46.
func CodeOf(check int) diag.Code { return codes[check-1] }

// CodeSource is reported by Write.
var CodeSource = diag.Define("RLX3040", "artifact cannot be made", `
What was to be written is not a valid artifact: a name or a type is beyond the format's limits, or a weight's bytes are not as many as
its type says. The message names it.`)

// fail makes the error of a check. where is the section or part, at is the byte offset from its start, or -1 for none.
func fail(check int, where string, at int64, format string, args ...any) error {
	if at >= 0 {
		where = fmt.Sprintf("%s, byte %d", where, at)
	}
	return diag.New(CodeOf(check), "", where+": "+format, args...)
}
