"""Compares internal/tokenizer with the Hugging Face library on random Unicode text.

    python compare.py cases.json [TEXTS] [SEED]
    RLX_TOKENIZER_CASES=cases.json go test ./internal/tokenizer -run TestPeer

It trains a small tokenizer for each of the pipelines that published models use, and for each part that the package
supports. encoders.py does the same for Unigram and WordPiece. """
import json, random, sys, unicodedata
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

out = sys.argv[1]
texts = int(sys.argv[2]) if len(sys.argv) > 2 else 300
rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)

N, P, D = normalizers, pre_tokenizers, decoders
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]


def split(expr, behavior="isolated", invert=False):
    return P.Split(Regex(expr), behavior, invert)


def levels(*before):
    return P.Sequence([*before, P.ByteLevel(add_prefix_space=False, use_regex=False)])


def spm_decoder(strip=True):
    return D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()] + ([D.Strip(" ", 1, 0)] if strip else []))


spm = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
byte, fallback = dict(byte_level=True), dict(fallback=True)
PIPELINES = {
    "gpt2": (None, P.ByteLevel(add_prefix_space=False), D.ByteLevel(), byte),
    "roberta": (None, P.ByteLevel(add_prefix_space=True), D.ByteLevel(), byte),
    "llama3": (None, levels(split(LLAMA3)), D.ByteLevel(), byte),
    "qwen2": (N.NFC(), levels(split(QWEN2)), D.ByteLevel(), byte),
    "o200k": (None, levels(split(O200K)), D.ByteLevel(), byte),
    "cl100k": (None, levels(split(CL100K, "removed", True)), D.ByteLevel(), byte),
    "deepseek": (None, levels(*map(split, DEEPSEEK)), D.ByteLevel(), byte),
    "starcoder": (None, P.Sequence([P.Digits(True), P.ByteLevel(add_prefix_space=False)]), D.ByteLevel(), byte),
    "llama2": (spm, None, spm_decoder(), fallback),
    "metaspace first": (None, P.Metaspace("▁", "first", False), spm_decoder(), fallback),
    "metaspace always": (None, P.Metaspace("▁", "always", True), D.Metaspace("▁", "always", True), fallback),
    "metaspace never": (None, P.Metaspace("▁", "never", True), D.Metaspace("▁", "never", True), {}),
    "gemma": (N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"), spm_decoder(False), fallback),
    "clip": (N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]),
             P.Sequence([split(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+", "removed", True),
                         P.ByteLevel(add_prefix_space=False)]),
             D.ByteLevel(), dict(byte_level=True, suffix="</w>")),
    "nfkc": (N.Sequence([N.NFKC(), N.Strip(True, True)]), P.Metaspace("▁", "first", True), D.Metaspace(),
             dict(unk=True, fuse=True)),
    "accents": (N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]), P.BertPreTokenizer(), None, dict(unk=True)),
    "nmt": (N.Sequence([N.Nmt(), N.NFKD()]), P.Whitespace(), D.Fuse(), dict(unk=True)),
    "whitespace": (None, P.Sequence([P.WhitespaceSplit(), P.Punctuation("contiguous"), P.Digits(False)]),
                   D.BPEDecoder("</w>"), dict(unk=True)),
    "with next": (None, P.Sequence([split(r"\w+", "merged_with_next"), P.CharDelimiterSplit("e")]), None,
                  dict(unk=True, fuse=True)),
    "with previous": (None, split(r"\s|\W", "merged_with_previous"), None, dict(unk=True, fuse=True)),
    "lines": (None, split(r"^.|\d+$|\x{E9}", "contiguous", True), None, dict(unk=True, prefix="##")),
    "empty matches": (None, split(r"a*", "isolated"), None, dict(unk=True)),
    "byte normalizer": (N.ByteLevel(), None, D.ByteLevel(), byte),
}
# Decoders that this version of the library lacks.
SKIP_DECODER = {"whitespace"}

WORDS = "the quick Brown fox don't I'LL we've it'ſ 1234567 3.14 ½ Ⅷ ² ﬁne naïve Straße İstanbul ΑΣ ПРИВЕТ שלום مرحبا 你好世界 ひらがな カタカナ 한국어 각 ẛ̣ e\u0301\u0328 👩‍👩‍👧 🇩🇪 ▁x <0x41> <s> </s> <x> <y> <z> <w> [n]Ab".split(
    " ")
SPACES = [" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u0085", "\u2028", "   ", "\n\n", ""]


def chars(n):
    def one():
        while True:
            c = rng.choice([lambda: rng.randrange(32, 127), lambda: rng.randrange(0x80, 0x800),
                            lambda: rng.randrange(0x800, 0xd800),
                            lambda: rng.randrange(0xe000, 0x10000), lambda: rng.randrange(0x10000, 0x20000),
                            lambda: rng.randrange(0x110000), lambda: rng.randrange(32)])()
            # unassigned characters depend on the version of Unicode
            if unicodedata.category(chr(c)) not in ("Cs", "Cn"):
                return chr(c)
    return "".join(one() for _ in range(n))


def text():
    kind = rng.randrange(4)
    if kind == 0:
        return chars(rng.randrange(1, 40))
    parts = []
    for _ in range(rng.randrange(1, 12)):
        parts += [rng.choice(WORDS) if rng.randrange(6) else chars(rng.randrange(4)), rng.choice(SPACES) if kind > 1 or
                  rng.randrange(2) else ""]
    return "".join(parts)


def train(norm, pre, dec, byte_level=False, fallback=False, suffix=None, prefix=None, unk=False, fuse=False):
    options = {k: v for k,
               v in dict(end_of_word_suffix=suffix, continuing_subword_prefix=prefix, unk_token="<unk>" if unk or
                         fallback else None).items() if v}
    t = Tokenizer(models.BPE(fuse_unk=fuse or fallback, byte_fallback=fallback, ignore_merges=byte_level and
                             rng.random() < .5, **options))
    if norm: t.normalizer = norm
    if pre: t.pre_tokenizer = pre
    if dec: t.decoder = dec
    special = ["<unk>"] if unk or fallback else []
    if fallback: special += ["<0x%02X>" % b for b in range(256)]
    options = {k: v for k, v in dict(end_of_word_suffix=suffix, continuing_subword_prefix=prefix).items() if v}
    corpus = [" ".join(WORDS + [w.lower() for w in WORDS]) for _ in range(4)] + [text() for _ in range(200)]
    t.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1200, special_tokens=special, limit_alphabet=300,
        show_progress=False,
                          initial_alphabet=P.ByteLevel.alphabet() if byte_level else [], **options))
    doc = json.loads(t.to_str())
    if fallback:  # byte tokens belong to the model only
        doc["added_tokens"] = [a for a in doc["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(doc))
    t.add_special_tokens(["<s>", "</s>"])
    t.add_tokens([AddedToken("<x>", lstrip=True, normalized=False), AddedToken("<y>", rstrip=True, normalized=True),
                  AddedToken("<z>", single_word=True, normalized=False),
                  AddedToken("<w>", lstrip=True, rstrip=True, normalized=True), AddedToken("[n]Ab", normalized=True),
                  AddedToken("x▁", normalized=False)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>",
        special_tokens=[(s, t.token_to_id(s)) for s in ("<s>", "</s>")])
    return t


files = []
for name, (norm, pre, dec, options) in PIPELINES.items():
    if name in SKIP_DECODER: dec = None
    t = train(norm, pre, dec, **options)
    case = lambda ids: dict(ids=ids, decoded=t.decode(ids, skip_special_tokens=False),
                            decoded_skip_special=t.decode(ids))
    cases = []
    for i in range(texts):
        s = text()
        cases.append(dict(name=f"{name} {i}", text=s, ids_plain=t.encode(s, add_special_tokens=False).ids,
                          **case(t.encode(s).ids)))
    random_ids = [dict(name=f"{name} ids {i}",
                       **case([rng.randrange(t.get_vocab_size()) for _ in range(rng.randrange(1, 12))])) for i in range(
                           texts)]
    files.append(dict(tokenizer=json.loads(t.to_str()), cases=cases, decode_cases=random_ids))
json.dump(files, open(out, "w"))
print(len(files), "tokenizers,", texts, "texts each")
