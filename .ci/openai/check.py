"""check.py URL: OpenAI's client for Python against `rlxrun serve`."""

import sys, threading

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
name = client.models.list().data[0].id
assert client.models.retrieve(name).id == name
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
ask = dict(model=name, max_tokens=12, temperature=0)
whole = client.chat.completions.create(messages=messages, logprobs=True, **ask)
answer = whole.choices[0].message.content
assert answer and whole.choices[0].finish_reason == "length" and whole.usage.completion_tokens == 12
assert len(whole.choices[0].logprobs.content) == 12
text = ""
parts = client.chat.completions.create(messages=messages, stream=True, stream_options={"include_usage": True}, **ask)
for part in parts:
    text += "".join(c.delta.content or "" for c in part.choices)
assert text == answer and part.usage.completion_tokens == 12
messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "More"}]
more = client.chat.completions.create(messages=messages, **ask)
assert more.usage.prompt_tokens_details.cached_tokens > 0
two = client.completions.create(prompt=["ROMEO:", "JULIET:"], **ask)
assert [c.index for c in two.choices] == [0, 1] and all(c.text for c in two.choices)
many = client.chat.completions.create(messages=messages, n=2, logprobs=True, top_logprobs=2, **ask)
assert [c.index for c in many.choices] == [0, 1] and many.choices[0].message.content == more.choices[0].message.content
assert all(len(t.top_logprobs) == 2 for t in many.choices[0].logprobs.content)
biased = client.chat.completions.create(messages=messages, logit_bias={"40": 100}, frequency_penalty=0.1, **ask)
assert biased.choices[0].message.content != more.choices[0].message.content
vectors = client.embeddings.create(model=name, input=["ROMEO:", "JULIET:"]).data
assert len(vectors) == 2 and abs(sum(x * x for x in vectors[0].embedding) - 1) < 1e-5
tools = [{"type": "function", "function": {"name": "time", "parameters": {"type": "object", "properties": {}}}}]
told = client.chat.completions.create(messages=messages, tools=tools, **ask)
assert told.usage.prompt_tokens > many.usage.prompt_tokens and told.choices[0].message.content is not None
for bad in ({"n": 0}, {"temperature": 3}, {"max_tokens": 0}, {"top_logprobs": 2}):
    try:
        client.chat.completions.create(messages=messages, **{**ask, **bad})
        raise AssertionError(bad)
    except openai.BadRequestError as e:
        assert e.param in bad, e
try:
    client.chat.completions.create(messages=[{"role": "user", "content": "word " * 5000}], **ask)
    raise AssertionError("a long prompt")
except openai.BadRequestError as e:
    assert e.code == "context_length_exceeded"
got = []


def complete():
    got.append(client.completions.create(prompt="ROMEO:", **ask).choices[0].text)


threads = [threading.Thread(target=complete) for _ in range(8)]
for t in threads:
    t.start()
for t in threads:
    t.join()
assert got == [two.choices[0].text] * 8, got
print("python: ok", openai.__version__)
