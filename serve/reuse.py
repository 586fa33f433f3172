"""Extractions reused where a growing session comes again: the same result, most of the work saved.

Of a language model the answer to each window is kept: windows are laid from the session's start, so
those before the last ones ask the very same. Of the tagger the triplets of a session are kept: what
it finds in a turn depends on that turn and the one before. Both are in memory, bounded, and hold
people's words: ``clear`` after a forgetting.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b

from glong.config import ExtractorSpec, ModelsConfig
from glong.extraction import LLMExtractor
from glong.models.load import load_extractor, load_generator
from glong.protocols import Extractor, Generator
from glong.types import Extraction, Generation, GenerationRequest, Session, Turn

__all__ = ["PrefixExtractor", "ReusingGenerator", "reusing_extractor"]

MAX_WINDOWS = 20_000
MAX_SESSIONS = 2_000
_REACH = 1
"""Turns before a turn on which the tagger's result for it depends."""


class ReusingGenerator:
    """A generator that remembers its answers by the exact request; failures are asked again."""

    def __init__(self, generator: Generator, max_answers: int = MAX_WINDOWS) -> None:
        self._generator = generator
        self._max_answers = max_answers
        self._answers: OrderedDict[GenerationRequest, Generation] = OrderedDict()

    @property
    def fingerprint(self) -> str:
        """The generator's own: what it answers is the same."""
        return self._generator.fingerprint

    def clear(self) -> None:
        """Forget all."""
        self._answers.clear()

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Answer each request, asking the model only what it was not asked before."""
        known = {r: self._answers[r] for r in requests if r in self._answers}
        new = [r for r in dict.fromkeys(requests) if r not in known]
        answers = known | dict(zip(new, self._generator.generate(new), strict=True))
        for request in dict.fromkeys(requests):
            if answers[request].failure is None:
                self._answers[request] = answers[request]
                self._answers.move_to_end(request)
        while len(self._answers) > self._max_answers:
            self._answers.popitem(last=False)
        return [answers[request] for request in requests]


class ReusingLLMExtractor(LLMExtractor):
    """An extractor whose language model remembers its answers."""

    def __init__(self, generator: ReusingGenerator, spec: ExtractorSpec) -> None:
        super().__init__(generator, spec)
        self._reusing = generator

    def clear(self) -> None:
        """Forget all."""
        self._reusing.clear()


class PrefixExtractor:
    """An extractor that reads only what was added to a session it has read before.

    Args:
        extractor: whose result for a turn depends on that turn and the ``reach`` turns before.
        reach: see there.
        max_sessions: extractions that are kept.
    """

    def __init__(
        self, extractor: Extractor, reach: int = _REACH, max_sessions: int = MAX_SESSIONS
    ) -> None:
        self._extractor = extractor
        self._reach = reach
        self._max_sessions = max_sessions
        self._known: OrderedDict[bytes, Extraction] = OrderedDict()

    @property
    def fingerprint(self) -> str:
        """The extractor's own: what it finds is the same."""
        return self._extractor.fingerprint

    def clear(self) -> None:
        """Forget all."""
        self._known.clear()

    def extract(self, sessions: Sequence[Session]) -> list[Extraction]:
        """Extract the facts of each session."""
        digests = [_digests(session.turns) for session in sessions]
        starts = [self._n_known(of_session) for of_session in digests]
        rest = [
            replace(session, turns=session.turns[max(0, n - self._reach) :])
            for session, n in zip(sessions, starts, strict=True)
        ]
        extractions = []
        for session, of_session, n, found in zip(
            sessions, digests, starts, self._extractor.extract(rest), strict=True
        ):
            whole = self._joined(session, of_session, n, found) if n else found
            self._keep(of_session[-1], whole)
            extractions.append(whole)
        return extractions

    def _n_known(self, digests: Sequence[bytes]) -> int:
        """Turns of the longest beginning that was read before."""
        return next((n for n in range(len(digests), 0, -1) if digests[n - 1] in self._known), 0)

    def _joined(
        self, session: Session, digests: Sequence[bytes], n: int, found: Extraction
    ) -> Extraction:
        before = self._known[digests[n - 1]]
        new = {turn.index for turn in session.turns[n:]}
        triplets = tuple(t for t in found.triplets if t.turn_index in new)
        failures = tuple(f for f in found.failures if f.turn_index in new)
        return Extraction(
            before.triplets + triplets,
            before.failures + failures,
            before.usage + found.usage,
            before.n_windows + found.n_windows,
        )

    def _keep(self, digest: bytes, extraction: Extraction) -> None:
        if any(failure.transient for failure in extraction.failures):
            return
        self._known[digest] = extraction
        self._known.move_to_end(digest)
        while len(self._known) > self._max_sessions:
            self._known.popitem(last=False)


def _digests(turns: Sequence[Turn]) -> list[bytes]:
    """For each n from 1: a hash of the first n turns, of all that an extractor reads of them."""
    digest, digests = blake2b(digest_size=16), []
    for turn in turns:
        digest.update(repr((turn.index, turn.speaker, turn.text)).encode())
        digests.append(digest.copy().digest())
    return digests


def reusing_extractor(config: ModelsConfig) -> Extractor:
    """The extractor of a configuration, with reuse where it saves work."""
    spec = config.extractor
    match spec.backend:
        case "fake" | "rules":
            return load_extractor(spec)
        case "tagger":
            return PrefixExtractor(load_extractor(spec))
    return ReusingLLMExtractor(ReusingGenerator(load_generator(spec)), spec)
