package code

import "github.com/rlx-go/rlx/core/diag"

// Of tasks.
var (
	MaskPrompt = diag.Define("RLX2030", "bad prompt", `
A point or box is outside the image, a box is empty, or there are more prompts than the model was compiled for. Coordinates are
pixels of the displayed image: x from 0 at the left edge to the width at the right edge, y from 0 at the top edge to the height at the
bottom edge. A point must be less than width and height; the corners of a box may lie on the edge. A box is X0,Y0,X1,Y1 with X0 < X1
and Y0 < Y1.`)
	MaskChoice = diag.Define("RLX2031", "no such mask", `
--mask must be best, all, or the number of one of the model's masks.`)
	NoBestMask = diag.Define("RLX1030", "no best mask", `
Every predicted IoU is NaN, so no mask is the best. --mask N selects a mask by number; --check-nan finds the first step that
produced a NaN.`)

	TextPrompt = diag.Define("RLX2032", "bad prompt", `
The prompt has no tokens, is not valid UTF-8, has an id outside the vocabulary, or is text although the model has no tokenizer.
Use --ids to give token ids instead of text. Or it has places for more or fewer images than are given (--image), a place for a video, or
images for a model that takes none.`)
	TextContext = diag.Define("RLX2033", "the context is full", `
Prompt and generated text together must fit the model's context. Give a shorter prompt, generate less (-n), start without --state, or
compile the model with a larger context (rlxc --context N).`)
	TextSampling = diag.Define("RLX2034", "bad sampling parameter", `
Allowed are: --temperature 0 (always the most probable token) or more; --top-k 0 (off) to the size of the vocabulary; --top-p 0 to 1
(0 and 1 are off); --min-p 0 (off) to 1; --repeat-penalty 0 or more (0 and 1 are off).`)
	TextUnfinished = diag.Define("RLX1031", "a text ended within its grammar", `
The text reached its number of tokens (-n), the model's context or a stop text before the grammar or JSON schema allows it to end, so it
does not parse. It was printed as it is. Allow more tokens (-n), or set limits in the grammar, such as maxLength and maxItems.`)
	TextGrammar = diag.Define("RLX2038", "bad grammar or JSON schema", `
A grammar (--grammar) has rules in llama.cpp's GBNF, of which root describes the whole text; the message gives line and column of what is
wrong. A JSON schema (--json-schema) may use the keywords that docs/text.md lists; the message names another one, and its place as a JSON
pointer, since the text would not be restricted by it. Both must allow some finite text, and a model needs a tokenizer for them.`)

	TrainData = diag.Define("RLX2035", "the text is too short to train on", `
A step of training takes sequences of as many tokens as the artifact was compiled for, and one more that is only predicted. Give a
longer text, or compile the model with a smaller rlxc --train-tokens.`)
	TrainResume = diag.Define("RLX2036", "the checkpoint belongs to another training", `
A checkpoint of a training is continued with the settings and the text that it was begun with. Only then is the result the same as
without the interruption. Repeat the flags that you gave first, or begin a new training with another --checkpoint file.`)
	TrainMasks = diag.Define("RLX2037", "bad images or masks to train on", `
Each image that a segmentation model is trained on has a mask of the same size, a PNG with the same name but for the ending: black is the
background, and every other colour is an object. The message names the file. Masks must not be smoothed or stored as JPEG, which gives
objects colours of their own at their edges.`)

	Image = diag.Define("RLX3030", "not a usable image", `
The image is none of PNG, JPEG, WebP, TIFF and BMP, is damaged, or is too large. Limits are 2^28 pixels, 2^20 pixels on a side, 1 GiB of decoded pixels,
and 1 GiB for the file. Convert it to PNG, JPEG, WebP, TIFF or BMP, or make it smaller.`)
	ImagePatches = diag.Define("RLX3032", "the image cannot be divided into patches", `
One side of the image is more than 200 times as long as the other, or the image has more patches than the model was compiled for. Crop it or make it smaller.`)
	TaskSpec = diag.Define("RLX4050", "bad task description", `
The artifact's task description is damaged, or uses a feature that this version does not know. Compile the model again.`)
	Tokenizer = diag.Define("RLX3080", "bad tokenizer", `
The tokenizer.json is not JSON or contradicts itself: a merge uses tokens outside the vocabulary, two tokens have the same id, or a key
has the wrong type. The message says where. Download the file again, or save it again with the Hugging Face library.`)
	TokenizerFeature = diag.Define("RLX3081", "unsupported tokenizer feature", `
This version does not support a model, normalizer, pre-tokenizer, post-processor or decoder of the tokenizer.json, or an option or
regular expression of it. Without it the ids would be wrong. The message names it and says what is supported.`)
	TokenizerText = diag.Define("RLX3082", "text cannot be tokenized", `
The text is not valid UTF-8, becomes too long when it is normalised, takes the tokenizer's regular expression too much time, or has a
character that is not in the vocabulary of a tokenizer without a token for unknown characters. The message says which.`)
)
