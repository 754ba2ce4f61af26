"""Compares Unigram and WordPiece tokenizers with the Hugging Face library on random Unicode text.

    pip install tokenizers sentencepiece
    python encoders.py cases.json [TEXTS] [SEED] [CORNERS]
    RLX_TOKENIZER_CASES=cases.json go test ./internal/tokenizer -run TestPeer

It trains a tokenizer for each of the pipelines that published encoders use, and makes CORNERS small ones with random
parts: equal scores, pieces that occur twice, scores with 17 digits, unknown characters in a row. The tables of the
normalizer Precompiled come from SentencePiece. With TEXTS 0 there are only corners.
internal/tokenizer/testdata/encoders.json is the output for 0 5 24. """
import base64, json, os, random, sys, tempfile, unicodedata
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
import sentencepiece

out = sys.argv[1]
texts = int(sys.argv[2]) if len(sys.argv) > 2 else 300
rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
corners = int(sys.argv[4]) if len(sys.argv) > 4 else 200
flip = lambda: rng.random() < .5
N, P, D = normalizers, pre_tokenizers, decoders

WORDS = (
    "the quick Brown fox don't I'LL we've jumps over it ' s do not n't 1234567 3.14 ½ Ⅷ ² ﬁne naïve Straße İstanbul ΑΣ ПРИВЕТ שלום مرحبا 你好世界 ひらがな カタカナ ｶﾞ 한국어 각 ẛ̣ "
         "e\u0301\u0328 ﬁ\u0301 ㍿ ™ ① Å 👩‍👩‍👧 🇩🇪 ❤\ufe0f ©\ufe0f ▁x <0x41> <s> </s> <unk> [UNK] <mask> [MASK] क्षि x\u0300\u0301 \u0958\u0301 unaffable ##ing ``quoted'' .").split(
             " ")
SPACES = [" "] * 6 + ["  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u200b", "\ufeff", "\u0085", "\u2028", "   ",
                      "\n\n", "", "\u200d", "\u00ad"]
# Characters whose category in the library's tables is not the current one, and neighbours of the Chinese blocks.
ODD = ("\u1734 \ua9bd \U000111c9 \u08e2 \u0898 \u061d \u166d \u1cf2 \u1cf3 \u0890 \u2e43 \u09fe \U000110cd \U00013430 \u1abf \ua8c5 \U0002b81f \U0002b820 \U0002b91f \U0002b920 \u4dbf \u4dc0 "
       "\u9fff \ua000 \ufaff \U0002fa1f \ue000 \U0010fffd \x00 \x7f \ufffd \u180e \u0300 \u20dd \u0903 \u0345").split(
           " ")


def chars(n):
    def one():
        while True:
            c = rng.choice([lambda: rng.randrange(32, 127), lambda: rng.randrange(0x80, 0x800),
                            lambda: rng.randrange(0x800, 0xd800), lambda: ord(rng.choice(ODD)),
                            lambda: rng.randrange(0x300, 0x370),
                            lambda: rng.randrange(0xe000, 0x10000), lambda: rng.randrange(0x10000, 0x20000),
                            lambda: rng.randrange(0x110000), lambda: rng.randrange(32),
                            lambda: rng.randrange(0x900, 0x980)])()
            # unassigned characters depend on the version of Unicode
            if unicodedata.category(chr(c)) not in ("Cs", "Cn"):
                return chr(c)
    return "".join(one() for _ in range(n))


def text():
    kind = rng.randrange(5)
    if kind == 0:
        return chars(rng.randrange(0, 40))
    if kind == 1 and rng.randrange(20) == 0:
        return "".join(rng.choice(WORDS) for _ in range(200))
    parts = []
    for _ in range(rng.randrange(1, 12)):
        parts += [rng.choice(WORDS) if rng.randrange(6) else chars(rng.randrange(4)), rng.choice(SPACES) if kind > 1 or
                  rng.randrange(2) else ""]
    return "".join(parts)


def charsmap(rule, tsv=None):
    """Returns SentencePiece's table for a rule: field 2 of the normalizer specification, which is field 3 of the
    model."""
    def field(data, number):
        at = 0
        def varint():
            nonlocal at
            v = shift = 0
            while True:
                b = data[at]; at += 1
                v |= (b & 127) << shift; shift += 7
                if b < 128: return v
        while at < len(data):
            key = varint()
            if key & 7 == 2:
                n = varint()
                if key >> 3 == number: return data[at:at + n]
                at += n
            elif key & 7 == 5: at += 4
            elif key & 7 == 0: varint()
            else: raise ValueError(key)
    with tempfile.TemporaryDirectory() as d:
        if tsv is not None:
            open(os.path.join(d, "rules"),
                 "w").write("".join("%s\t%s\n" % tuple(" ".join("%X" % ord(c) for c in s) for s in r) for r in tsv))
        how = dict(normalization_rule_tsv=os.path.join(d, "rules")) if tsv is not None else dict(
            normalization_rule_name=rule)
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a b c d e f"] * 10),
            model_prefix=os.path.join(d, "m"), vocab_size=11, hard_vocab_limit=False, minloglevel=2, **how)
        return base64.b64encode(field(field(open(os.path.join(d, "m.model"), "rb").read(), 3), 2)).decode()


def precompiled(table): return N.Precompiled(base64.b64decode(table))


def train(model, trainer, norm, pre, dec, special, change):
    t = Tokenizer(model)
    if norm: t.normalizer = norm
    if pre: t.pre_tokenizer = pre
    t.train_from_iterator([" ".join(WORDS + [w.lower() for w in WORDS]) for _ in range(4)] +
                          [text() for _ in range(200)], trainer)
    if dec: t.decoder = dec
    doc = json.loads(t.to_str())
    doc["added_tokens"] = []
    change(doc["model"])
    t = Tokenizer.from_str(json.dumps(doc))
    t.add_special_tokens([AddedToken(s, lstrip=s in ("<mask>", "[MASK]"), normalized=False) for s in special])
    t.add_tokens([AddedToken("<y>", rstrip=True, normalized=True),
                  AddedToken("Brown", normalized=True, single_word=True)])
    first, last = special[:2]
    t.post_processor = rng.choice(
        [processors.BertProcessing((last, t.token_to_id(last)), (first, t.token_to_id(first))),
         processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=f"{first} $A {last} $B:1 {last}:1",
        special_tokens=[(s, t.token_to_id(s)) for s in (first, last)])])
    return t


def unigram(norm, pre, dec, fallback=False):
    special = ["<s>", "</s>", "<unk>", "<mask>"]
    def change(model):
        if fallback:
            model["vocab"] += [["<0x%02X>" % b, -20.0] for b in range(256)]
            model["byte_fallback"] = True
    trainer = trainers.UnigramTrainer(vocab_size=900, special_tokens=special[:3], unk_token="<unk>",
                                      show_progress=False, max_piece_length=16)
    return train(models.Unigram(), trainer, norm, pre, dec, special, change)


def wordpiece(norm, pre, dec, prefix="##"):
    special = ["[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    def change(model): model["max_input_chars_per_word"] = rng.choice([100, 100, 8])
    trainer = trainers.WordPieceTrainer(vocab_size=1200, special_tokens=special[:3], show_progress=False,
                                        limit_alphabet=300, continuing_subword_prefix=prefix)
    return train(models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=prefix), trainer, norm, pre, dec,
                 special, change)


def pipelines():
    nfkc, folded = charsmap("nmt_nfkc"), charsmap("nmt_nfkc_cf")
    spaces = N.Replace(Regex(" {2,}"), " ")
    meta = lambda scheme="always", split=True: P.Metaspace(prepend_scheme=scheme, split=split)
    yield "xlm-roberta", unigram(precompiled(nfkc), P.Sequence([P.WhitespaceSplit(), meta()]), D.Metaspace())
    yield "xlm-roberta 2", unigram(N.Sequence([precompiled(nfkc), spaces]), meta(), D.Metaspace())
    yield "first", unigram(precompiled(nfkc), meta("first"), D.Metaspace(prepend_scheme="first"))
    yield "first, one piece", unigram(precompiled(folded), meta("first", False), D.Metaspace(prepend_scheme="first"))
    yield "t5", unigram(
        N.Sequence([precompiled(nfkc), N.Strip(left=False, right=True), N.Replace(Regex(" {2,}"), "▁")]), meta(),
                        D.Metaspace())
    yield "albert", unigram(
        N.Sequence([N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(),
                    precompiled(nfkc), spaces]), meta(), D.Metaspace())
    yield "deberta", unigram(N.Sequence([N.Strip(), precompiled(nfkc), spaces]), P.Sequence([meta("always", True)]),
                             D.Metaspace())
    yield "mbart", unigram(N.Sequence([N.Lowercase(), precompiled(folded)]), meta("never"),
                           D.Metaspace(prepend_scheme="never"))
    yield "fallback", unigram(N.NFKC(), meta("first", False),
                              D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]), True)
    yield "no pre-tokenizer", unigram(N.NFC(), None, None)
    for clean in (True, False):
        for lower in (True, False):
            for accents in (None, True, False):
                yield f"bert {clean} {lower} {accents}", wordpiece(N.BertNormalizer(clean, flip(), accents, lower),
                    P.BertPreTokenizer(), D.WordPiece(cleanup=flip()))
    yield "distilbert", wordpiece(N.Sequence([N.NFD(), N.Lowercase(), N.StripAccents()]), P.Whitespace(),
                                  D.WordPiece("@@", True), "@@")
    yield "no prefix", wordpiece(N.BertNormalizer(), P.Sequence([P.WhitespaceSplit(), P.Punctuation()]), None, "")


def corner(tables):
    """Returns a tokenizer with random parts and a small vocabulary."""
    replace = lambda content, **pattern: dict(type="Replace", pattern=pattern, content=content)
    table = lambda: dict(type="Precompiled", precompiled_charsmap=rng.choice(tables))
    bert = lambda: dict(type="BertNormalizer", clean_text=flip(), handle_chinese_chars=flip(),
                        strip_accents=rng.choice([None, True, False]), lowercase=flip())
    one = lambda: rng.choice([table(), table(), bert(), replace("▁", String=" "), replace(" ", Regex=" {2,}"),
                              dict(type="Strip", strip_left=flip(), strip_right=flip()),
                              dict(type="Prepend", prepend="▁"),
                              *[dict(type=t) for t in ("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents",
                                  "Nmt")]])
    n = rng.randrange(4)
    norm = [None, one()][n] if n < 2 else dict(type="Sequence", normalizers=[one() for _ in range(n)])
    meta = lambda: dict(type="Metaspace", replacement="▁",
                        prepend_scheme=rng.choice(["first", "first", "always", "never"]), split=flip())
    pre = rng.choice([meta(), meta(), dict(type="BertPreTokenizer"), dict(type="WhitespaceSplit"),
                      dict(type="Sequence", pretokenizers=[dict(type="WhitespaceSplit"), meta()]), None])
    dec = rng.choice([None, dict(type="Metaspace", replacement="▁", prepend_scheme="first", split=True),
                      dict(type="WordPiece", prefix=rng.choice(["##", "a"]), cleanup=flip()),
                      dict(type="Sequence",
                           decoders=[replace(" ", String="▁"), dict(type="ByteFallback"), dict(type="Fuse")])])
    pool = list("abcdABx▁ \n.,'#é\u0301日①") + ["ab", "bc", "abc", "bcd", "abcd", "▁a", "▁ab", "##a", "##b", "##ab",
                                               "##bc", "##日", "##", "aa", "aaa", "aaaa", "日日", "a▁", "ﬁ", "fi", "I",
                                               "1", "TM"]
    pieces = rng.sample(pool, rng.randrange(6, len(pool)))
    if flip():
        score = rng.choice([lambda: rng.randrange(-4, 3) / 2, lambda: -rng.random() * 9, lambda: -1.1,
                            lambda: rng.choice([5, 0, -0.0, 1e-7, -12345678901234567890.125, -3e20, 0.1, 0.2,
                                                0.30000000000000004])])
        vocab = [[p, score()] for p in pieces]
        unk = rng.randrange(len(vocab) + 1)
        vocab.insert(unk, ["<unk>", rng.choice([0.0, -3.5])])
        if flip():
            vocab += [["<0x%02X>" % b, score()] for b in range(256) if flip() or flip()]
        if rng.randrange(3) == 0:
            vocab += [[p, score()] for p in rng.sample(pieces, 2)]
        model = dict(type="Unigram", unk_id=unk, vocab=vocab, byte_fallback=flip())
    else:
        vocab = {p: i for i, p in enumerate(pieces)}
        vocab["[UNK]"] = len(vocab)
        model = dict(type="WordPiece", unk_token="[UNK]", continuing_subword_prefix=rng.choice(["##", "##", "", "a"]),
                     max_input_chars_per_word=rng.choice([100, 3, 0]), vocab=vocab)
    known = [v[0] for v in vocab] if isinstance(vocab, list) else list(vocab)
    added = [dict(id=known.index(c) if c in known else len(known) + i, content=c, single_word=False, lstrip=flip(),
                  rstrip=flip(), normalized=False, special=flip()) for i,
             c in enumerate(rng.sample(["<x>", "<y>", "ab", "▁"], rng.randrange(3)))]
    return dict(version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=norm, pre_tokenizer=pre,
                post_processor=None, decoder=dec, model=model)


# Rules of which some shorten the beginning of a text, drop it, or map what a mark follows.
RULES = [[("①", "1"), ("\u2122", "TM"), ("\x01", ""), ("A", "abc"), ("e\u0301", "é"), ("\r", " "), ("ﬁ", "fi"),
          ("B\u0301", ""), ("\u00ad", "")],
         [("a", "b"), ("ab", "x"), ("b\u0301", "日本語"), (" ", "▁"), ("é", "e\u0301"), ("日", ""), ("\u3000", " ")]]

files, panics = [], 0


def add(name, t, doc, texts, text, ids):
    global panics
    case = lambda ids: dict(ids=ids, decoded=t.decode(ids, skip_special_tokens=False),
                            decoded_skip_special=t.decode(ids))
    cases = []
    while len(cases) < texts:
        s = text()
        try: cases.append(dict(name=f"{name} {len(cases)}", text=s, ids_plain=t.encode(s, add_special_tokens=False).ids,
                               **case(t.encode(s).ids)))
        except BaseException: panics += 1
    files.append(dict(tokenizer=doc, cases=cases,
                      decode_cases=[dict(name=f"{name} ids {i}",
                                         **case([
                                             rng.randrange(t.get_vocab_size()) for _ in range(
                                                 rng.randrange(1, 12))])) for i in range(ids)]))


if texts:
    for name, t in pipelines():
        add(name, t, json.loads(t.to_str()), texts, text, texts)
tables = [charsmap("", rules) for rules in RULES]
for i in range(corners):
    doc = corner(tables)
    t = Tokenizer.from_str(json.dumps(doc))
    parts = list("ababcdAB x.,▁ ") + ["abc", "aaaaa", "日", "é", "e\u0301", "\u0301", "ﬁ", "①", "™", "\x01", "\r\n",
                                      "\n", "  ", "B\u0301", "b\u0301", "ﬁ\u0301", "😀", "<x>", "<y>", "<unk>", "[UNK]",
                                      "<0x41>", "\u00ad", "\u3000", "本", *ODD]
    add(f"corner {i}", t, doc, 12 if not texts else max(texts // 10, 20),
        lambda: "".join(rng.choice(parts) for _ in range(rng.randrange(9))), 2)
with open(out, "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(x, ensure_ascii=False, separators=(",", ":")) for x in files) + "\n]\n")
print(len(files), "tokenizers,", panics, "texts left out, for which the library fails")
