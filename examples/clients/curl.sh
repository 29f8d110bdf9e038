#!/bin/sh
# What can be called now, and an answer token by token. BERTH_URL and BERTH_KEY as for `berth`.
set -eu
model=${1:-alice/qwen3-coder-30b}

curl -sS --fail-with-body -H "Authorization: Bearer $BERTH_KEY" "$BERTH_URL/v1/models"
echo

curl -sS --fail-with-body -N -H "Authorization: Bearer $BERTH_KEY" \
  -H 'Content-Type: application/json' "$BERTH_URL/v1/chat/completions" \
  -d '{"model": "'"$model"'", "stream": true, "stream_options": {"include_usage": true},
       "messages": [{"role": "user", "content": "Write a haiku about ships."}]}'
