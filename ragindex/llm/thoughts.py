"""What a model thought before it answered, between the marks that chat templates write for it.

| marks | models |
|---|---|
| `<think>`, `<thinking>`, `<thought>`, `<reasoning>`, `<seed:think>`, in any case | DeepSeek-R1, Qwen3, Seed-OSS |
| `[THINK]` | Magistral |
| `◁think▷` | Kimi |
| `<|begin_of_thought|>`, with the answer in `<|begin_of_solution|>` | Sky-T1, OpenThinker |
| `<|channel>thought` … `<channel|>` | Gemma |
| `<|channel|>analysis` … `<|channel|>final<|message|>` | gpt-oss (harmony), also where a server dropped the marks |
"""

import regex

_NAMES = r"(?:seed:)?(?:think|thinking|thought|reasoning)"
_MARK = regex.compile(
    rf"(?P<open><{_NAMES}>|\[think\]|◁think▷|<\|begin_of_thought\|>|<\|channel>thought\b)"
    rf"|</{_NAMES}>|\[/think\]|◁/think▷|<\|end_of_thought\|>|<channel\|>",
    regex.IGNORECASE,
)
_SOLUTION = regex.compile(r"<\|(?:begin|end)_of_solution\|>", regex.IGNORECASE)
_CHANNEL = regex.compile(r"<\|channel\|>\s*(\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>")
_CHANNEL_END = regex.compile(r"<\|(?:end|return|start|call)\|>")
_BARE_CHANNELS = regex.compile(r"\s*analysis.*?assistantfinal", regex.DOTALL)


def drop_thoughts(text: str) -> str:
    r"""Return an answer without what the model thought; blank if it never stopped thinking.

    A closing mark alone ends a thought from the start on, because chat templates may write the opening one.

    >>> drop_thoughts("[THINK]<think>no</think> or [/THINK]{}"), drop_thoughts("what? </think>yes")
    ('{}', 'yes')
    """
    text = text.lstrip("\ufeff")
    channels = list(_CHANNEL.finditer(text))
    if channels:
        final = next((one for one in reversed(channels) if one[1] == "final"), None)
        return "" if final is None else _CHANNEL_END.split(text[final.end() :], maxsplit=1)[0]
    if (bare := _BARE_CHANNELS.match(text)) is not None:
        return text[bare.end() :]
    return _SOLUTION.sub("", _drop_marked(text))


def _drop_marked(text: str) -> str:
    """Return the text without what stands between opening and closing marks, which may be nested."""
    kept, start, depth, opened = list[str](), 0, 0, 0
    for mark in _MARK.finditer(text):
        if mark["open"]:
            opened = mark.start() if depth == 0 else opened
            depth += 1
        elif depth > 1:
            depth -= 1
        else:
            if depth:
                kept.append(text[start:opened])
            else:
                kept.clear()
            start, depth = mark.end(), 0
    before = "".join(kept)
    if depth and not (before + text[start:opened]).strip():
        return ""
    return (before if before.strip() else "") + text[start:]
