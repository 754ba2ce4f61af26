#!/usr/bin/env bash
# Runs OpenAI's clients for Python, Node and Go, two programs that use the first, and the clients of Triton and KServe
# for Python, against rlxrun serve with the demo models.
# Needs make build, and the package indexes of these languages.
set -euo pipefail
cd "$(dirname "$0")"
dir=$(mktemp -d)
server=
trap 'kill $server 2>/dev/null || true; rm -rf "$dir"' EXIT
cp ../../demo/llama/* "$dir"
python3 - "$dir/tokenizer_config.json" <<'END'
import json, sys
with open(sys.argv[1]) as f:
    config = json.load(f)
config["chat_template"] = ("{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}{% for m in messages %}{{ m.role|upper }}:\n{{ m.content }}\n\n{% endfor %}"
                           "{% if add_generation_prompt %}ASSISTANT:\n{% endif %}")
with open(sys.argv[1], "w") as f:
    json.dump(config, f)
END
../../bin/rlxc "$dir" -o "$dir/chat.rlx" --target cpu --batch 8
../../bin/rlxc ../../demo/sam-nano.safetensors -o "$dir/sam.rlx" --target cpu
../../bin/rlxrun serve "$dir/chat.rlx" "$dir/sam.rlx" --grpc 127.0.0.1:0 >"$dir/url" 2> >(tee "$dir/notes" >&2) &
server=$!
until [ -s "$dir/url" ]; do kill -0 $server && sleep 0.1; done
url=$(cat "$dir/url")
go run . "$url"
if command -v npm >/dev/null; then
	cp check.mjs package.json "$dir"
	(cd "$dir" && npm install --silent && node check.mjs "$url")
else
	echo "node: skipped, npm is not here"
fi
# each program in an environment of its own, because in a common one pip takes old versions that fit together
environment() {
	"${PYTHON:-python3}" -m venv "$dir/$1"
	"$dir/$1/bin/pip" install -q "${@:2}"
}
environment venv openai 'tritonclient[all]' kserve
environment llm-venv llm
environment sgpt-venv shell-gpt click # which shell-gpt imports, but does not require
"$dir/venv/bin/python" check.py "$url"
grpc=$(sed -n 's/^gRPC at //p' "$dir/notes")
"$dir/venv/bin/python" check_triton.py "$url" "$grpc"
"$dir/venv/bin/python" check_kserve.py "$url" "$grpc"
./programs.sh "$url" "$dir"
