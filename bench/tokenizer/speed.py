"""Times the Hugging Face library on one thread, to compare with BenchmarkEncode.

    python speed.py TEXT tokenizer.json...
    RLX_TOKENIZER_TEXT=TEXT go test ./internal/tokenizer -run '^$' -bench Encode
"""
import os, sys, time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer

text = open(sys.argv[1], encoding="utf-8").read()
size = len(text.encode())
for path in sys.argv[2:]:
    t = Tokenizer.from_file(path)
    best = min(
        _time for _time in [
            (lambda s: (t.encode(text), time.perf_counter() - s)[1])(time.perf_counter()) for _ in range(5)])
    print(f"{path}: {size / best / 1e6:.2f} MB/s")
