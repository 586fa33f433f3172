"""JSON-schema constrained decoding for transformers, with xgrammar: masks what cannot follow.

One matcher a row follows that row's schema; rows without a schema stay free. White space between
JSON tokens is off, since a weak model writes it until the limit.
"""

from collections.abc import Sequence
from typing import Any

from glong.errors import ModelError
from glong.models.extras import extra

__all__ = ["GrammarCompiler", "GrammarMask"]

_SEPARATORS = (",", ":")
"""What vLLM sets with ``disable_any_whitespace``: both back ends allow the very same answers."""


class GrammarCompiler:
    """Compiles JSON schemas for one tokenizer; xgrammar keeps what it compiled (a few ms a schema).

    Args:
        tokenizer: a transformers tokenizer.
        n_vocabulary: columns of the model's logits, which may be more than the tokenizer knows.
        stop_ids: tokens that end an answer.
    """

    def __init__(self, tokenizer: Any, n_vocabulary: int, stop_ids: Sequence[int]) -> None:
        with extra("models"):
            import xgrammar

        info = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer, vocab_size=n_vocabulary, stop_token_ids=list(stop_ids)
        )
        self._compiler = xgrammar.GrammarCompiler(info)
        self._n_vocabulary = n_vocabulary

    def compile(self, json_schema: str) -> Any:
        """The compiled grammar of a schema.

        Raises:
            ModelError: the schema cannot be turned into a grammar.
        """
        try:
            return self._compiler.compile_json_schema(
                json_schema, any_whitespace=False, separators=_SEPARATORS
            )
        except RuntimeError as error:
            raise ModelError(
                f"json_schema cannot constrain an answer: {error}", hint="Simplify the schema."
            ) from error

    def mask(self, json_schemas: Sequence[str]) -> "GrammarMask | None":
        """The mask of a batch, one schema a row (empty: free); ``None`` if all rows are free."""
        if not any(json_schemas):
            return None
        grammars = [self.compile(schema) if schema else None for schema in json_schemas]
        return GrammarMask(grammars, self._n_vocabulary)


class GrammarMask:
    """A logits processor for one call of ``generate``: each row keeps to its grammar.

    Args:
        grammars: a compiled grammar, or ``None``, for each row of the batch.
        n_vocabulary: columns of the logits.
    """

    def __init__(self, grammars: Sequence[Any], n_vocabulary: int) -> None:
        import xgrammar

        self._apply = xgrammar.apply_token_bitmask_inplace
        self._matchers = {
            row: xgrammar.GrammarMatcher(grammar)
            for row, grammar in enumerate(grammars)
            if grammar is not None
        }
        self._bits = xgrammar.allocate_token_bitmask(len(grammars), n_vocabulary)
        self._started = False

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Mask ``scores`` (rows, vocabulary), given ``input_ids`` (rows, tokens so far)."""
        if self._started:
            last = input_ids[:, -1].tolist()
            for row, matcher in self._open():
                matcher.accept_token(last[row])
        self._started = True
        rows = [
            row for row, matcher in self._open() if matcher.fill_next_token_bitmask(self._bits, row)
        ]
        if rows:
            self._apply(scores, self._bits.to(scores.device), indices=rows)
        return scores

    def _open(self) -> list[tuple[int, Any]]:
        return [(row, m) for row, m in self._matchers.items() if not m.is_terminated()]
