"""A gate on structured answers: JSON of a schema."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, final

from gfcr.filter._gates import Gate
from gfcr.filter._schema import check_schema, fits, read
from gfcr.filter._texts import fenced, written
from gfcr.stages import View
from gfcr.types import Rollout
from gfcr.values.ranges import Options


@final
@dataclass(kw_only=True)
class JsonGate(Gate):
    """Fails completions that are no JSON, or not what the schema says.

    The schema is JSON Schema (2020-12), references within it and formats included; a keyword that
    it does not have is refused. NaN and Infinity are no JSON.

    Hurts a policy that thinks aloud before it answers, where the whole completion has to be JSON:
    ask for a fenced block, and set `where: fence`.
    """

    cell: ClassVar[str] = "F5.2"
    origin: ClassVar[str] = "ours"

    schema: Options = field(default_factory=dict[str, Any])
    """By default any JSON will do."""
    where: Literal["text", "fence"] = "text"
    """The whole completion, or its last block between lines of three backticks."""

    def __post_init__(self) -> None:
        check_schema(self.schema, key="json_gate.schema")

    def passes(self, rollout: Rollout, *, view: View) -> bool:
        text = written(rollout, view=view)
        if self.where == "fence":
            text = ["", *fenced(text, languages=("json",))][-1]
        try:
            return fits(read(text), schema=self.schema)
        except ValueError:
            return False
