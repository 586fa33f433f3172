"""A real OpenAI-compatible server: vLLM with SmolLM2 on this machine's CPU."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from glong.models.smollm2 import smollm2_folder

__all__ = ["MODEL", "serving"]

MODEL = "smollm2"
START_S = 400
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "2",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}


@contextmanager
def serving(port: int, log: Path) -> Iterator[None]:
    """The server at a port of loopback, from when it is ready; ``log`` gets what it says.

    Raises:
        AssertionError: it does not start.
    """
    options = {
        "--model": str(smollm2_folder()),
        "--served-model-name": MODEL,
        "--host": "127.0.0.1",
        "--port": str(port),
        "--dtype": "float32",
        "--max-model-len": "4096",
        "--generation-config": "vllm",
        "--seed": "0",
    }
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--enforce-eager"]
    command += [word for option in options.items() for word in option]
    with log.open("w") as file:
        process = subprocess.Popen(
            command, env={**os.environ, **_ENVIRONMENT}, stdout=file, stderr=file
        )
    try:
        _wait(process, f"http://127.0.0.1:{port}/health", log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    until_s = time.monotonic() + START_S
    while time.monotonic() < until_s and process.poll() is None:
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(1)
    raise AssertionError(f"vLLM is not ready: {log.read_text()[-3000:]}")
