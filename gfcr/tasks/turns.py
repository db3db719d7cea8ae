"""Turns of a conversation, as data sets hold them and as chat templates take them."""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from gfcr.errors import TaskError, did_you_mean, shown

Turn: TypeAlias = Mapping[str, Any]
"""One message: `role`, `content`, and what else a chat template reads of it."""

FIELDS: Final = (
    *("role", "content", "name", "tool_calls", "tool_call_id"),
    *("reasoning_content", "thinking"),
)
"""Fields of a turn that chat templates read."""
_FORMS: Final = ({"role", "content"}, {"from", "value"})
SHAREGPT: Final = {
    **{"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"},
    **{"system": "system", "tool": "tool", "observation": "tool"},
}
"""Roles by the names that turns of `{from, value}` have for them."""


def written(text: str) -> list[Any] | None:
    """Returns the conversation that a text is in JSON or Python, as exports to CSV write it."""
    if not (text.lstrip().startswith("[{") and text.rstrip().endswith("}]")):
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            found: list[Any] = read(text.strip())
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
        if all(isinstance(t, dict) and any(f <= {*t} for f in _FORMS) for t in found):
            return found
    return None


def conversation(given: Any, *, where: str) -> tuple[Turn, ...]:
    """Returns the turns of a conversation: text parts are joined, fields that are None left out.

    Tables fill the fields that only some turns have with None, also those within tool calls.

    Args:
        given: what the table holds.
        where: row and column, for messages.

    Raises:
        TaskError: it is no conversation, has what no text template can show, or ends with a system
            prompt; names row and turn.
    """
    turns = cast("list[Any]", given) if isinstance(given, list) else []
    if not turns or not all(isinstance(turn, Mapping) for turn in turns):
        raise TaskError(
            f"{where} holds {shown(turns)}: give a text, or a conversation, which is a list of "
            "{role, content}."
        )
    made = tuple(_turn(turn, where=f"{where}, turn {n}") for n, turn in enumerate(turns))
    last = made[-1]
    if last["role"] not in ("user", "tool") and (last["role"] != "assistant" or _calls(last)):
        raise TaskError(
            f"{where}: the conversation ends with a turn of '{last['role']}': end it with the "
            "user's or a tool's, which is to be answered, or with the beginning of the answer, a "
            "text of the assistant."
        )
    return made


def asked(turns: Sequence[Turn]) -> str:
    """Returns the text of the last turn that is not the assistant's: what is to be answered."""
    return next((t.get("content") or "" for t in reversed(turns) if t["role"] != "assistant"), "")


def tools(given: Any, *, where: str) -> tuple[Mapping[str, Any], ...]:
    """Returns the tools of a row, JSON schemas as chat templates take them; none of None.

    Raises:
        TaskError: it is neither a list of schemas nor the JSON of one.
    """
    if (found := _listed(given)) is None:
        raise TaskError(
            f"{where} holds {shown(given)}: give a list of JSON schemas, one for each tool, or "
            "name another tools_column ('' for none)."
        )
    return tuple(_filled(each) for each in found)


def missing(rendered: str, *, turns: Sequence[Turn], tools: Sequence[Mapping[str, Any]]) -> str:
    """Names a tool, called or offered, or a turn that a rendered prompt does not show; or nothing.

    Templates trim texts, write some as JSON, and leave out what the assistant has thought.
    """
    called = [_name(call) for turn in turns for call in _calls(turn)]
    for name in [*called, *map(_name, tools)]:
        if name not in rendered:
            return f"the tool '{name}'"
    for number, turn in enumerate(turns):
        said = (turn.get("content") or "").rpartition("</think>")[2].strip()
        spelt = (said, *(json.dumps(said, ensure_ascii=a)[1:-1] for a in (False, True)))
        if not any(text in rendered for text in spelt):
            return f"turn {number}, of the role '{turn['role']}',"
    return ""


def _turn(given: Mapping[str, Any], *, where: str) -> Turn:
    kept = _filled(given)
    if _FORMS[1] <= kept.keys() and not _FORMS[0] & kept.keys():
        if (role := SHAREGPT.get(str(kept["from"]))) is None:
            raise TaskError(
                f"{where} is from {shown(kept['from'])}: give one of {', '.join(SHAREGPT)}, or "
                "turns of {role, content}."
            )
        rest = {name: value for name, value in kept.items() if name not in _FORMS[1]}
        kept = {"role": role, "content": kept["value"], **rest}
    role = kept.get("role")
    if not isinstance(role, str) or not role:
        raise TaskError(f"{where} has no role: give 'system', 'user', 'assistant' or 'tool'.")
    if unknown := [name for name in kept if name not in FIELDS]:
        raise TaskError(
            f"{where} ({role}) has '{unknown[0]}', which no chat template reads."
            f"{did_you_mean(unknown[0], FIELDS)} Allowed: {', '.join(FIELDS)}."
        )
    if (calls := _listed(kept.pop("tool_calls", None))) is None:
        raise TaskError(
            f"{where} ({role}) holds the tool_calls {shown(given['tool_calls'])}: give a list of "
            "{function: {name, arguments}}, or the JSON of one."
        )
    kept |= {"tool_calls": calls} if calls else {}
    if "content" in kept:
        return {**kept, "content": _text(kept["content"], where=f"{where} ({role})")}
    if not _calls(kept):
        raise TaskError(f"{where} ({role}) has no content: give it a text, or tool_calls.")
    return {**kept, "content": None} if "content" in given else kept


def _listed(given: Any) -> list[Any] | None:
    """Returns tools or calls, which may be the JSON of a list or a list of JSON; None of others."""
    try:
        held: list[Any] = (json.loads(given or "[]") if isinstance(given, str) else given) or []
        found: list[Any] = [json.loads(one) if isinstance(one, str) else one for one in held]
    except (TypeError, ValueError):
        return None
    made = [cast("Mapping[str, Any]", each) for each in found if isinstance(each, Mapping)]
    inner = (each.get("function", {}) for each in made)
    return found if len(made) == len(found) and all(isinstance(i, Mapping) for i in inner) else None


def _text(content: Any, *, where: str) -> str:
    """Returns a content's text, which may be a number, or a list of parts of text."""
    if isinstance(content, str | int | float):
        return str(content)
    parts = cast("list[Any]", content) if isinstance(content, list) else [content]
    for part in parts:
        if not _is_text(part):
            raise TaskError(
                f"{where} holds {shown(part)}: prompts are of text; give a text, or parts of "
                "{type: text, text}."
            )
    return "".join(part["text"] for part in parts)


def _is_text(part: Any) -> bool:
    fields = cast("dict[str, Any]", part) if isinstance(part, dict) else {}
    return fields.get("type") == "text" and isinstance(fields.get("text"), str)


def _calls(turn: Turn) -> Sequence[Any]:
    return turn.get("tool_calls") or ()


def _name(tool: Mapping[str, Any]) -> str:
    """Returns the name of a tool or call, which most formats have within `function`."""
    return str({**tool, **tool.get("function", {})}.get("name", ""))


def _filled(given: Any) -> Any:
    """Returns a value without those fields of its mappings that are None."""
    if isinstance(given, Mapping):
        held = cast("Mapping[str, Any]", given)
        return {name: _filled(value) for name, value in held.items() if value is not None}
    return (
        [_filled(each) for each in cast("list[Any]", given)] if isinstance(given, list) else given
    )
