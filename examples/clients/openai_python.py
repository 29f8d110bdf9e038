"""An answer token by token with the official SDK: pip install openai."""

import os
import sys

from openai import OpenAI

client = OpenAI(base_url=os.environ["BERTH_URL"] + "/v1", api_key=os.environ["BERTH_KEY"])
model = sys.argv[1] if len(sys.argv) > 1 else "alice/qwen3-coder-30b"

stream = client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": "Write a haiku about ships."}],
    stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    if chunk.choices:
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    elif chunk.usage:
        print(f"\n({chunk.usage.completion_tokens} tokens)")
