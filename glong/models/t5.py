"""Scorer on a T5 summariser: cross-attention of its last decoder layer, equations (1) and (2).

Knows tokens and batches. How triplets become source text and attention becomes scores is decided by
the pure functions of :mod:`glong.weighting`; weights come from :mod:`glong.models.t5_weights`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glong.config import ScorerSpec
from glong.errors import ConfigError, ModelError
from glong.ids import text_hash
from glong.models.extras import extra
from glong.models.sentence import tokenizer_hash, weights_hash
from glong.models.t5_weights import t5_checkpoint
from glong.weighting import (
    SEPARATOR,
    SOURCE_PREFIX,
    merge_windows,
    plan_windows,
    pool,
    summary_mask,
)

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

__all__ = ["Reading", "T5Scorer"]

RULES = "greedy, end token counts, window scores by share of tokens, 1"
"""Version of what this module and :mod:`glong.weighting` decide: a part of the fingerprint."""

_CONFIG_KEYS = (
    "d_kv",
    "num_heads",
    "relative_attention_num_buckets",
    "relative_attention_max_distance",
    "layer_norm_epsilon",
    "feed_forward_proj",
    "tie_word_embeddings",
    "pad_token_id",
    "eos_token_id",
    "decoder_start_token_id",
)
"""What the shapes of the weights do not say."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the summariser made of one session.

    Attributes:
        scores: (n_triplets,) raw S of equation (2).
        summaries: for each window the generated token ids, end token included.
    """

    scores: NDArray[np.float64]
    summaries: tuple[tuple[int, ...], ...]

    @property
    def n_windows(self) -> int:
        """Windows that the session was read in."""
        return len(self.summaries)


@dataclass(frozen=True, slots=True)
class _Tokens:
    """A triplet's own tokens, at least one, and those of the separator after it."""

    own: tuple[int, ...]
    separator: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Window:
    """Source ids as the encoder reads them, and the span of each triplet in them."""

    source: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one session is read."""

    token_counts: list[int]
    slices: tuple[slice, ...]
    windows: list[_Window]


class T5Scorer:
    """A :class:`glong.protocols.Scorer` on any T5 or FLAN-T5 checkpoint, in float32."""

    def __init__(
        self,
        spec: ScorerSpec,
        model: Any,
        tokenizer: "PreTrainedTokenizerBase",
    ) -> None:
        """Take a loaded ``T5ForConditionalGeneration`` and its tokeniser.

        Raises:
            ConfigError: the tokeniser gives no offsets, or the window leaves no room for triplets.
            ModelError: the model gives no cross-attention.
        """
        if not tokenizer.is_fast or tokenizer.unk_token_id is None:
            raise ConfigError(
                f"scorer.model is {spec.model!r}, whose tokeniser gives no token offsets; "
                "allowed: a checkpoint with a fast tokeniser (tokenizer.json or spiece.model)."
            )
        spec = _within(spec, model.config)
        self._spec = spec
        self._model = model.eval()
        self._tokenizer = tokenizer
        self._eos_id: int = model.config.eos_token_id
        self._fingerprint = _fingerprint(spec, model, tokenizer)
        self._prefix = tuple(tokenizer(SOURCE_PREFIX, add_special_tokens=False)["input_ids"])
        self._capacity = spec.max_source_tokens - len(self._prefix) - 1
        if self._capacity < 8:
            raise ConfigError(
                f"scorer.max_source_tokens is {spec.max_source_tokens}; allowed with this "
                f"tokeniser: {len(self._prefix) + 9} or more."
            )
        # The checkpoint's own file may ask for beams or a length penalty: not inherited.
        model.generation_config = _greedy(spec, model.config)
        self._read_batch([self._lay_out([_Tokens((tokenizer.unk_token_id,), ())])])

    @classmethod
    def load(cls, spec: ScorerSpec) -> "T5Scorer":
        """Load ``spec.model``: a hub name, a folder, or ``package:glong-scorer``.

        Raises:
            ConfigError: an extra or package is missing, or there is no such T5 checkpoint.
            ModelError: its weights are incomplete, or it gives no cross-attention.
        """
        with extra("models"):
            import torch

            model, tokenizer = t5_checkpoint(spec.model)
        return cls(spec, model.to("cuda" if torch.cuda.is_available() else "cpu"), tokenizer)

    @property
    def fingerprint(self) -> str:
        """Identity of weights, configuration, tokeniser and of the settings that change scores."""
        return self._fingerprint

    def weigh(self, sessions: Sequence[Sequence[str]]) -> list[NDArray[np.float64]]:
        """Raw scores S of equation (2), for each session (n_triplets,); see ``Scorer.weigh``."""
        return [reading.scores for reading in self.read(sessions)]

    def read(self, sessions: Sequence[Sequence[str]]) -> list[Reading]:
        """Scores with the summaries behind them, in order.

        Windows of all sessions are read in batches of ``batch_size``, like lengths together.

        Raises:
            ModelError: the model failed as a whole, or gave no finite attention.
        """
        plans = self._plan(sessions)
        windows = [window for plan in plans for window in plan.windows]
        order = sorted(range(len(windows)), key=lambda i: len(windows[i].source))
        done: dict[int, tuple[NDArray[np.float64], tuple[int, ...]]] = {}
        for start in range(0, len(order), self._spec.batch_size):
            batch = order[start : start + self._spec.batch_size]
            done.update(zip(batch, self._read_batch([windows[i] for i in batch]), strict=True))
        results = iter([done[i] for i in range(len(windows))])
        return [_reading(plan, [next(results) for _ in plan.windows]) for plan in plans]

    def _plan(self, sessions: Sequence[Sequence[str]]) -> list[_Plan]:
        tokens = iter(self._tokenise([text for texts in sessions for text in texts]))
        return [self._plan_session([next(tokens) for _ in texts]) for texts in sessions]

    def _plan_session(self, triplets: list[_Tokens]) -> _Plan:
        counts = [min(len(t.own) + len(t.separator), self._capacity) for t in triplets]
        slices = plan_windows(counts, self._capacity, self._spec.overlap_tokens)
        return _Plan(counts, slices, [self._lay_out(triplets[s]) for s in slices])

    def _tokenise(self, texts: list[str]) -> list[_Tokens]:
        """Tokens of each triplet and its separator; one that starts in the text is the text's."""
        if not texts:
            return []
        read = self._tokenizer(
            [text + SEPARATOR for text in texts],
            add_special_tokens=False,
            return_offsets_mapping=True,
        )
        unknown = (self._tokenizer.unk_token_id,)
        result = []
        for text, ids, offsets in zip(
            texts, read["input_ids"], read["offset_mapping"], strict=True
        ):
            n_own = sum(start < len(text) for start, _ in offsets)
            result.append(_Tokens(tuple(ids[:n_own]) or unknown, tuple(ids[n_own:])))
        return result

    def _lay_out(self, triplets: Sequence[_Tokens]) -> _Window:
        """Prefix, triplets, end token; only a triplet that is a window of its own needs a cut."""
        source, spans = list(self._prefix), []
        for triplet in triplets:
            own = triplet.own[: self._capacity - len(triplet.separator)]
            spans.append((len(source), len(source) + len(own)))
            source += own + triplet.separator
        return _Window((*source, self._eos_id), tuple(spans))

    def _read_batch(
        self, windows: Sequence[_Window]
    ) -> list[tuple[NDArray[np.float64], tuple[int, ...]]]:
        """Scores of the triplets of each window, and its summary."""
        try:
            summaries, attention = self._summarise([window.source for window in windows])
        except RuntimeError as error:
            raise ModelError(
                f"T5 failed on {len(windows)} windows: {error}",
                hint="If memory ran out, lower scorer.batch_size or scorer.max_source_tokens.",
            ) from error
        masks = summary_mask(summaries, self._eos_id)
        results = []
        for window, summary, mask, seen in zip(windows, summaries, masks, attention, strict=True):
            scores = pool(seen, window.spans, mask)
            if not np.isfinite(scores).all():
                raise ModelError(
                    "T5 gave attention that is not finite.",
                    hint="Check the weights of scorer.model.",
                )
            results.append((scores, tuple(summary[mask].tolist())))
        return results

    def _summarise(
        self, sources: Sequence[tuple[int, ...]]
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Greedy summaries, then one teacher-forced pass over them that keeps the attention.

        Args:
            sources: n token sequences, N tokens at most.

        Returns:
            Generated ids (n, T) and the last layer's cross-attention (n, H, T, N).
        """
        import torch

        source, mask = _padded(sources, self._model.config.pad_token_id, self._model.device)
        with torch.inference_mode():
            encoded = self._model.get_encoder()(input_ids=source, attention_mask=mask)
            written = self._model.generate(encoder_outputs=encoded, attention_mask=mask)
            seen = self._model.get_decoder()(
                input_ids=written[:, :-1],  # position j - 1 writes y_j
                encoder_hidden_states=encoded.last_hidden_state,
                encoder_attention_mask=mask,
                output_attentions=True,
                use_cache=False,
            )
        if not seen.cross_attentions:
            raise ModelError(
                "T5 gave no cross-attention.",
                hint='Load it with attn_implementation="eager": sdpa gives an empty tuple.',
            )
        return written[:, 1:].cpu().numpy(), seen.cross_attentions[-1].cpu().numpy()


def _reading(
    plan: _Plan, results: Sequence[tuple[NDArray[np.float64], tuple[int, ...]]]
) -> Reading:
    scores = merge_windows(plan.slices, [scores for scores, _ in results], plan.token_counts)
    return Reading(scores, tuple(summary for _, summary in results))


def _padded(
    sources: Sequence[tuple[int, ...]], pad_id: int, device: "torch.device"
) -> tuple["torch.Tensor", "torch.Tensor"]:
    """Ids and mask, each (n, longest), padded on the right."""
    import torch

    longest = max(map(len, sources))
    ids = torch.full((len(sources), longest), pad_id, dtype=torch.long)
    mask = torch.zeros((len(sources), longest), dtype=torch.long)
    for row, source in enumerate(sources):
        ids[row, : len(source)] = torch.tensor(source)
        mask[row, : len(source)] = 1
    return ids.to(device), mask.to(device)


def _within(spec: ScorerSpec, config: Any) -> ScorerSpec:
    """The spec with the shorter summary of a model that was made to write fewer tokens."""
    most = getattr(config, "max_summary_tokens", spec.max_summary_tokens)
    return replace(spec, max_summary_tokens=min(spec.max_summary_tokens, most))


def _greedy(spec: ScorerSpec, config: Any) -> Any:
    from transformers import GenerationConfig

    untyped: Any = GenerationConfig
    return untyped(
        max_new_tokens=spec.max_summary_tokens,
        do_sample=False,
        num_beams=1,
        pad_token_id=config.pad_token_id,
        eos_token_id=config.eos_token_id,
        decoder_start_token_id=config.decoder_start_token_id,
        suppress_tokens=[config.pad_token_id],  # padding is never a summary token
    )


def _fingerprint(spec: ScorerSpec, model: Any, tokenizer: "PreTrainedTokenizerBase") -> str:
    settings = [f"{key}={getattr(model.config, key, None)}" for key in _CONFIG_KEYS]
    limits = (spec.max_source_tokens, spec.overlap_tokens, spec.max_summary_tokens)
    return text_hash(
        "t5",
        RULES,
        SOURCE_PREFIX,
        SEPARATOR,
        *settings,
        *map(str, limits),
        weights_hash(model),
        tokenizer_hash(tokenizer),
    )
