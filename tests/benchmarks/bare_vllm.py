"""Bare vLLM on given prompts, in its own process: ``python bare_vllm.py PROMPTS.json OUT.json``.

The named baseline of the extraction benchmark. It knows nothing of glong: token ids and schemas
come from the file, the engine gets them in one call.
"""

import json
import sys
import time
from pathlib import Path

from vllm import LLM, SamplingParams
from vllm.sampling_params import StructuredOutputsParams


def main() -> None:
    """Warm up on the first prompts, then time the others."""
    job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    engine = LLM(model=job["model"], **job["settings"])
    prompts = [{"prompt_token_ids": ids} for ids in job["prompts"]]
    sampling = [
        SamplingParams(
            temperature=0.0,
            max_tokens=job["max_tokens"],
            structured_outputs=StructuredOutputsParams(json=schema),
        )
        for schema in job["schemas"]
    ]
    n_warm = job["n_warm"]
    engine.generate(prompts[:n_warm], sampling[:n_warm], use_tqdm=False)
    began_s = time.perf_counter()
    outputs = engine.generate(prompts[n_warm:], sampling[n_warm:], use_tqdm=False)
    seconds = time.perf_counter() - began_s
    tokens = [len(output.outputs[0].token_ids) for output in outputs]
    texts = [output.outputs[0].text.strip() for output in outputs]
    result = {"seconds": seconds, "tokens_out": sum(tokens), "texts": texts}
    Path(sys.argv[2]).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
