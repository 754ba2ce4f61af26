#!/usr/bin/env bash
# Runs llm and shell-gpt, programs that use OpenAI's client for Python, against a server: programs.sh URL FOLDER, where
# the folder has their virtual environments.
set -euo pipefail
url=$1 dir=$2
export OPENAI_API_KEY=none LLM_USER_PATH=$dir/llm
mkdir "$LLM_USER_PATH"
cat >"$LLM_USER_PATH/extra-openai-models.yaml" <<END
- model_id: rlx
  model_name: chat
  api_base: $url
  supports_schema: true
END
ask() { "$dir/llm-venv/bin/llm" -m rlx -o temperature 0 "$@" </dev/null; }
whole=$(ask -o max_tokens 12 --no-stream Hello)
streamed=$(ask -o max_tokens 12 Hello)
[ -n "$whole" ] && [ "$whole" = "$streamed" ] || { echo "llm: whole '$whole', streamed '$streamed'"; exit 1; }
[ -n "$(ask -o max_tokens 12 --continue More)" ] || { echo "llm: no answer to the second message"; exit 1; }
ask -o max_tokens 200 --schema 'ok bool, n int' Hello | python3 -c '
import json, sys
a = json.load(sys.stdin)
assert sorted(a) == ["n", "ok"] and type(a["ok"]) is bool and type(a["n"]) is int, a'
echo "llm: ok"
shell() {
	HOME=$dir API_BASE_URL=$url DEFAULT_MODEL=chat OPENAI_USE_FUNCTIONS=false USE_LITELLM=false \
		"$dir/sgpt-venv/bin/sgpt" --no-cache --no-md --temperature 0 Hello </dev/null
}
first=$(shell)
[ -n "$first" ] && [ "$first" = "$(shell)" ] || { echo "sgpt: '$first', and another answer later"; exit 1; }
echo "shell-gpt: ok"
