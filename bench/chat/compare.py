"""Writes the texts that Transformers makes with chat templates, for tests of internal/jinja and task/text/chat.

    python compare.py cases.json FOLDER...
    RLX_CHAT_CASES=cases.json go test ./task/text/chat -run TestPeer

It runs several conversations through each .jinja file in the folders. In internal/jinja/testdata and
task/text/chat/testdata, cases.json comes from the templates beside it. """
import datetime, glob, json, os, sys
from transformers.utils import chat_template_utils as utils

NOW = datetime.datetime(2024, 7, 3, 9, 5, 0)


class Clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return NOW


utils.datetime = Clock
S, U, A = (lambda role: lambda content: dict(role=role, content=content))("system"), (lambda c: dict(role="user",
    content=c)), (lambda c: dict(role="assistant", content=c))
CONVERSATIONS = [
    [U("Hello")],
    [S("Be brief."), U("Hello")],
    [U("  two\n lines "), A("Yes.\n"), U("\"quoted\" <|im_end|> 'é'")],
    [S(""), U("a"), A("<think>\nhm\n</think>\n\nb"), U("c"), A("d")],
    [U("a"), U("b")],
    [A("first")],
    [],
]
out = []
for folder in sys.argv[2:]:
    for path in sorted(glob.glob(os.path.join(folder, "*.jinja"))):
        with open(path, encoding="utf-8", newline="") as f:
            source = f.read()
        cases = []
        for messages in CONVERSATIONS:
            for prompt, variables in ((True, {}), (False, {}), (True, dict(enable_thinking=False))):
                case = dict(messages=messages, add_generation_prompt=prompt, variables=variables)
                try:
                    case["want"] = utils._compile_jinja_template(source).render(messages=messages,
                        add_generation_prompt=prompt, tools=None, documents=None,
                                                                                   bos_token="<s>", eos_token="</s>",
                        **variables)
                except Exception as e:
                    case["error"] = f"{type(e).__name__}: {e}"[:200]
                cases.append(case)
        if "enable_thinking" not in source:
            cases = [c for c in cases if not c["variables"]]
        out.append(dict(file=os.path.basename(path), template=source, cases=cases))
with open(sys.argv[1], "w") as f:
    f.write("[\n" + ",\n".join(json.dumps(o) for o in out) + "\n]\n")
