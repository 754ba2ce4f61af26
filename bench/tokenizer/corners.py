"""Writes corner cases of added tokens, normalizers and byte fallback, with the results of the Hugging Face library.

    python corners.py corners.json [TOKENIZERS] [TEXTS] [SEED]
    RLX_TOKENIZER_CASES=corners.json go test ./internal/tokenizer -run TestPeer

internal/tokenizer/testdata/corners.json is the output for 32 9 32. Every tokenizer has random parts and a small
vocabulary. Three kinds of cases are left out: added tokens of which several are the same after normalisation, where the
library's choice varies from load to load; special tokens that the normalizer changes (see the package's documentation);
and texts for which the library panics ("AddedVocabulary bad split"). """
import json, random, sys
from tokenizers import Tokenizer

out = sys.argv[1]
count, texts = [int(x) for x in sys.argv[2:4]] if len(sys.argv) > 3 else (300, 40)
rng = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)

WHOLE = [c.encode() for c in ["é", "日", "😀", "a", "\0"]]
BAD = [0xff, 0x80, 0xc0, 0xed, 0xa0, 0xf4, 0x90]
BYTES = sorted({b for c in WHOLE for b in c} | set(BAD))
CHARS = list("abcABx▁ \n\t<>") + ["é", "\u0301", "e", "ﬁ", "f", "i", "\u00a0", "İ"]
ADDED = ["<x>", "<y>", "<z>", "a<", "ab", "▁a", " a", "a ", "A", "é", "e\u0301", "ﬁ", "<x><y>", " ", "\n", "▁", "b",
         "<0x61>", "x", "bb"]
flip = lambda: rng.random() < .5


def replace(content, **pattern):
    return dict(type="Replace", pattern=pattern, content=content)


def normalizer():
    one = lambda: rng.choice([
        dict(type="Prepend", prepend=rng.choice(["▁", "ab", " "])), replace("▁", String=" "), replace("", String="a"),
                              replace("bb", String="a"),
        replace("b", Regex="^a+"), replace(" ", Regex=r"\s+"), replace("", Regex="b"),
                              dict(type="Strip", strip_left=flip(), strip_right=flip()),
        *[dict(type=t) for t in ("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Nmt")]])
    n = rng.randrange(4)
    return [None, one()][n] if n < 2 else dict(type="Sequence", normalizers=[one() for _ in range(n)])


def pre_tokenizer():
    meta = lambda: dict(type="Metaspace", replacement="▁",
                        prepend_scheme=rng.choice(["first", "first", "always", "never"]), split=flip())
    other = lambda: rng.choice([dict(type="WhitespaceSplit"), dict(type="Punctuation", behavior="Isolated"), meta(),
                                dict(
        type="Split", pattern=dict(String=rng.choice("ab ")),
        behavior=rng.choice(["Removed", "Isolated", "MergedWithNext", "MergedWithPrevious"]), invert=flip())])
    n = rng.randrange(6)
    if n == 4: return dict(type="ByteLevel", add_prefix_space=flip(), trim_offsets=True, use_regex=flip())
    if n == 5: return dict(type="Sequence", pretokenizers=rng.sample([other(), meta()], 2))
    return meta() if n else None


def decoder():
    return rng.choice([None, dict(type="ByteFallback"),
                       dict(type="Metaspace", replacement="▁", prepend_scheme="first", split=True),
                       dict(type="Sequence",
                            decoders=[replace(" ", String="▁"), dict(type="ByteFallback"), dict(type="Fuse")])])


def tokenizer():
    vocab = {}
    for c in ["<unk>", *["<0x%02X>" % b for b in BYTES], "<0x+A>", *CHARS, "ab", "▁a", "bb", "fi", "<x", "<x>", "▁▁"]:
        vocab.setdefault(c, len(vocab))
    merges = [["a", "b"], ["▁", "a"], ["b", "b"], ["f", "i"], ["<", "x"], ["<x", ">"], ["▁", "▁"]]
    rng.shuffle(merges)
    norm, added, id = normalizer(), [], len(vocab)
    for c in rng.sample(ADDED, rng.randrange(1, 7)):
        # Sometimes the file says another id than the library gives: one beside the vocabulary's, or after a gap.
        own = vocab[c] if c in vocab and rng.randrange(4) else id
        id += 1 + (rng.randrange(6) == 0)
        added.append(dict(id=own, content=c, single_word=rng.randrange(4) == 0, lstrip=flip(), rstrip=flip(),
                          normalized=flip(), special=flip()))
    if rng.randrange(5) == 0:  # again, with other flags
        added.append(dict(rng.choice(added), lstrip=flip(), rstrip=flip(), special=flip()))
    for a in added:
        a["special"] = a["special"] and not (a["normalized"] and norm)
    model = dict(type="BPE", dropout=None, unk_token=rng.choice(["<unk>", None]), continuing_subword_prefix=None,
                 end_of_word_suffix=None, fuse_unk=flip(),
                 byte_fallback=flip(), ignore_merges=flip(), vocab=vocab, merges=merges)
    return dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=norm,
                pre_tokenizer=pre_tokenizer(), post_processor=None,
                decoder=decoder(), model=model)


def ambiguous(t, doc):
    """Reports whether two added tokens have the same pattern, one has an empty pattern, which cuts the text at every
    character, or one becomes equal to a special token, so that the library takes it for special when it decodes."""
    patterns, special = {}, [a["content"] for a in doc["added_tokens"] if a["special"]]
    for a in doc["added_tokens"]:
        p = t.normalizer.normalize_str(a["content"]) if a["normalized"] and t.normalizer else a["content"]
        if not p or p != a["content"] and p in special or patterns.setdefault((a["normalized"], p),
            a["content"]) != a["content"]: return True
    return False


files, panics = [], 0
while len(files) < count:
    doc = tokenizer()
    t = Tokenizer.from_str(json.dumps(doc))
    if ambiguous(t, doc): continue
    id = len(files)
    decoded = lambda ids: dict(ids=ids, decoded=t.decode(ids, skip_special_tokens=False),
                               decoded_skip_special=t.decode(ids))
    parts = [a["content"] for a in doc["added_tokens"]] * 3 + [" ", "  ", "\n", "\t ", "\u00a0", "a", "b", "ab", "x",
        "é", "e\u0301", "A", "▁", "日", "ﬁ", "<x"]
    cases, bytes = [], []
    while len(cases) < texts:
        s = "".join(rng.choice(parts) for _ in range(rng.randrange(1, 8)))
        try: ids = t.encode(s).ids
        except BaseException: panics += 1; continue
        cases.append(dict(name=f"{id}.{len(cases)}", text=s, ids_plain=ids, **decoded(ids)))
    while len(bytes) < texts // 2:
        ids = []
        for _ in range(rng.randrange(1, 5)):
            c = rng.choice(WHOLE)
            run = rng.choice([c, c[rng.randrange(len(c)):], c[:rng.randrange(len(c))], [rng.choice(BAD)]])
            ids += [t.token_to_id("<0x%02X>" % b) for b in run] if rng.randrange(4) else [
                rng.randrange(t.get_vocab_size())]
        bytes.append(dict(name=f"{id}.bytes{len(bytes)}", **decoded(ids)))
    files.append(dict(tokenizer=doc, cases=cases, decode_cases=bytes))
with open(out, "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(x, ensure_ascii=False, separators=(",", ":")) for x in files) + "\n]\n")
print(len(files), "tokenizers,", texts, "texts each;", panics, "texts left out, for which the library panics")
