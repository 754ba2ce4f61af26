package code

import (
	"fmt"

	"github.com/rlx-go/rlx/core/diag"
)

// Of artifacts, besides the verifier's checks.
var (
	ArtifactSource = diag.Define("RLX3040", "artifact cannot be made", `
The artifact to write would not be valid: a name or type exceeds the format's limits, or a weight does not have as many bytes as its
type needs. The message names it.`)
	ArtifactMissing = diag.Define("RLX3041", "artifact cannot be opened", `
The artifact does not exist, or you may not read it.`)
	ArtifactChanged = diag.Define("RLX4051", "artifact changed while it was used", `
Something wrote to or truncated the file after it was verified, so the results are discarded. To replace an artifact that may be in
use, write the new one beside it and rename it, as rlxc does: runs that have begun keep the old one.`)
)

// Verifier returns the code of the verifier's check n, from 1 to 47: RLX4000 + n.
func Verifier(n int) diag.Code { return verifier[n-1] }

var verifier = func() (c [len(checks)]diag.Code) {
	for i, e := range checks {
		c[i] = diag.Define(diag.Code(fmt.Sprintf("RLX%d", 4001+i)), e.title, e.text)
	}
	return c
}()

// checks lists the verifier's checks in order: check k is checks[k-1], and its error is RLX4000+k. Checks 1 to 12 are
// about the container, 13 to 16 the encoding, 17 to 21 types and weights, 22 to 28 graphs, 29 to 38 placements and
// steps, 39 to 44 the target and each run (reported by the runtime and the backends), 45 states, 46 methods in
// segments, and 47 loops.
var checks = [...]struct{ title, text string }{
	{"not a file that can be verified", `
The artifact must be a regular file of at most 2^44 bytes, not a pipe, device or directory. A policy may also refuse files that
other users can write to.`},
	{"not an .rlx artifact of a known version", `
The file does not begin like an artifact: with the magic bytes, the major version of the format, and the sizes of the header and
of a table entry. If the major version is newer, use a newer rlxrun. If the magic bytes are wrong, the file is probably something
else, or was transferred in text mode.`},
	{"header is damaged", `
The header's CRC-32C does not match, or a reserved byte or an unknown flag is set. The file was damaged in transit: download it again.`},
	{"file size differs from the header", `
The header states the size of the file. If the file is shorter, a download was probably interrupted; if it is longer, something was
appended to it.`},
	{"artifact needs a feature this version lacks", `
The file sets a bit of feature_required that this version does not know. Ignoring it could change results. Use a newer rlxrun.`},
	{"section table is out of bounds", `
The number of sections is not between 1 and 64, or the table reaches beyond the end of the file.`},
	{"root digest differs", `
The root is the SHA-256 of the header and the section table. It does not match the file, or not the digest that you asked for. The
file is damaged, forged, or another one.`},
	{"section is out of bounds", `
A section is empty, misaligned, larger than its kind may be, begins inside the table, or reaches beyond the end of the file.`},
	{"sections overlap or leave gaps", `
Sections must follow each other with only zero bytes for alignment between them, and end where the file ends, so that nothing can
hide in between.`},
	{"sections are missing, repeated or unknown", `
Each kind of section may occur once. META, GRPH, PLAN and SCHD are required, and TNSR, CHNK and WGTS come together. A file with an
unknown critical section needs a newer rlxrun.`},
	{"section has an unknown schema version", `
A critical section has a schema that this version does not know. Use a newer rlxrun, or compile the model again.`},
	{"digest of a section differs", `
The SHA-256 of a section, or of a 4 MiB chunk of the weights, does not match. The file was damaged in transit or on disk. Download it
or compile the model again.`},
	{"section is not in canonical form", `
A section is one msgpack value of the rlx profile: shortest forms, sorted unique string keys, valid UTF-8, no nil, float32, NaN or
extension. Only damaged or hand-made files differ.`},
	{"section's nesting or counts are out of bounds", `
A section nests deeper than 16 levels, has too many values, or states a count that its bytes cannot hold.`},
	{"section does not follow its schema", `
A field is missing, unknown, of the wrong type or beyond its limit, or the number of items differs from the section table.`},
	{"section does not encode to itself", `
Decoding the section and encoding it again gives other bytes. This happens only to hand-made files.`},
	{"bad name", `
A name must be unique where it is looked up and have 1 to 512 bytes of printable UTF-8. Names of nodes, outputs and weights must not
contain spaces, quotes or any of , = { }. Names of methods have 1 to 64 characters of a-z, 0-9, _ and -, and start with a letter.`},
	{"type is beyond the limits", `
An element type is unknown, or a rank, a dimension, the number of elements or the size in bytes exceeds the limits of the format.`},
	{"element type is not a whole number of bytes", `
Sub-byte and block element types are not part of this version of the format.`},
	{"weights are not laid out as they must be", `
Weights must be in order of their offsets, each at the first aligned offset after the one before, with zero bytes between. Each has
the size of its type, and together they fill the weights section.`},
	{"bad quantization", `
The weight directory names a quantization scheme that this version does not know.`},
	{"op or attributes are unknown", `
This version, or this target, does not have the op of a node, or the op does not take the node's operands or attributes. The file may
need a newer rlxrun.`},
	{"dangling reference", `
An operand or a parameter refers to a node or a weight that does not exist.`},
	{"graph is not in order", `
An operand refers to its own node or a later one. Nodes may refer only to earlier nodes, which rules out cycles.`},
	{"bad graph of an attribute", `
Graphs that attributes refer to are listed before those that refer to them, nest at most as deep as the file says, and each is
referred to. Only those of a loop may read weights, and none has a state.`},
	{"declared type differs from the inferred one", `
The verifier infers the type of each node from its operands and compares each parameter with its weight. Here the op does not accept
its operands, or the file states another type.`},
	{"signature differs from the programs", `
Each method must have a program, and its inputs, outputs and symbols in META must equal those of its programs, in order. The task
must name inputs and outputs that exist and have the types and sizes that it needs, for all values of the symbols.`},
	{"bad symbolic dimension", `
A symbol's range must satisfy 0 <= min <= max <= 2^40. Dimensions must refer to existing symbols and stay in range.`},
	{"bad arena", `
The size of the arena or the IO space is not a multiple of 256, or exceeds the limit.`},
	{"bad placement", `
Each value must have one place. It lies inside its space, is aligned to 256 bytes unless it shares another value's place, and has
exactly the size that its type needs at the upper bounds of the symbols.`},
	{"bad sharing of storage", `
A value may lie inside another only as a view, at the offset that the op gives, or exactly over an operand that its op may overwrite.`},
	{"steps do not run the graph", `
Every node that computes something must have exactly one step, after the steps of its operands.`},
	{"a step reads bytes that hold something else", `
The verifier simulates the steps and tracks which value owns each byte. Here a step reads a value that was not written yet or has been
overwritten. The file is damaged, forged, or comes from a faulty compiler.`},
	{"several queues are not supported", `
This version runs the steps of a program in one queue. The file needs a newer rlxrun.`},
	{"a step writes over what it reads", `
A step's result overlaps another of its results, or overlaps an operand without replacing exactly that operand.`},
	{"weights would be written", `
A step's result lies in the weights space, which is read-only, or a weight lies outside it.`},
	{"inputs and outputs overlap", `
Inputs and outputs must have their own bytes in the IO space for the whole run.`},
	{"program is beyond the policy", `
The weights, arena and IO space of a program need more memory than the policy allows, or its estimated work exceeds the policy.`},
	{"backend lacks an op or a size", `
The chosen backend does not have an op, an element type or a buffer size that the program uses. Compile for another target or choose
another backend.`},
	{"backend is not the allowed one", `
The backend's executable does not have the allowed digest, or speaks another version of the protocol.`},
	{"backend did not get the verified program", `
A backend verifies the program that it receives. This one does not pass.`},
	{"input does not fit the program", `
The element type, shape or length of an input is not what the program takes, or a size is out of range.`},
	{"index out of range", `
A value that the program uses as an index is outside the table that it indexes.`},
	{"output is not intact", `
An output does not have the size that the program states, or belongs to another run.`},
	{"bad state", `
A state keeps data from run to run. It must have the same type, initial value and range of the state space in all programs. Only the
state and its updates, in the same place and one after the other, may lie in that space.`},
	{"bad segments", `
A method that several backends or devices run in turn consists of segments, programs with the method's symbols. What a segment reads, and each
output of the method, must be an input of the method or come from an earlier segment, with the same type. Only segments for the
method's own target may keep states.`},
	{"bad loop", `
The graphs of a loop are programs of their own, which have a plan and a schedule, as no other graph that an attribute refers to has.
They run in a region of the arena of the program that has the loop, which must lie inside that arena and be free during the step.
Inputs of the condition must lie where those of the body do.`},
}
