"""What the clients of tests/e2e/sdk must see of a model that counts, wherever it is served."""

NUMBERS = "".join(f" {n}" for n in range(42, 62))


def check_openai(seen, model):
    """Results of sdk/openai.mjs, all cases but embeddings."""
    assert model in seen["models"]
    assert seen["chat"]["text"] == NUMBERS and seen["chat"]["finish"] == "length"
    assert seen["chat"]["usage"]["completion_tokens"] == 20
    for case, usages in (("stream", 0), ("stream_usage", 1)):
        s = seen[case]
        assert (s["text"], s["pieces"], s["finish"]) == (NUMBERS, 20, "length"), case
        assert s["usages"] == usages, case
    assert seen["stream_usage"]["usage"]["completion_tokens"] == 20
    assert seen["completion"]["text"] == " 8 9 10"
    assert seen["abort"]["pieces"] == 3
    assert seen["abort_silent"]["class"] == "APIUserAbortError"
    assert seen["unknown_model"]["class"] == "NotFoundError"
    assert model in seen["unknown_model"]["message"]
    assert seen["wrong_key"]["class"] == "AuthenticationError"


def check_ai(seen):
    """Results of sdk/ai.mjs, all cases but embed."""
    assert seen["generate"]["text"] == NUMBERS
    assert seen["generate"]["usage"]["outputTokens"] == 20
    for case in ("stream", "stream_usage"):
        assert (seen[case]["text"], seen[case]["finish"]) == (NUMBERS, "length"), case
    assert seen["stream_usage"]["usage"]["outputTokens"] == 20
    assert "outputTokens" not in seen["stream"]["usage"]
    assert seen["abort"]["pieces"] == 3
