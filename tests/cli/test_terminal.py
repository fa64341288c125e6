"""`kvmath` on narrow terminals and in pipes, with wrong paths, and options in any place."""

import asyncio
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from app import __version__
from tests.conftest import ROOT
from tests.fake_hub import FakeHub
from tests.fake_hub.hub import COMMIT

COMMAND = [sys.executable, "-c", "from app.cli import main; main()"]
# 2 x 32 x 8 x 128 x 2 bytes, of 8,192, 32,768 and 131,072 tokens in GiB.
LLAMA_ROW = ["meta-llama/Meta-Llama-3-8B", "8.03", "16.06", "131,072", "1.000", "4.000", "16.000"]


def environment(home: Path, **more: str) -> dict[str, str]:
    return {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "PATH": "", **more}


def kvmath(*words: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *words],
        env=environment(home, **more),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def on_terminal(*words: str, columns: int, home: Path) -> str:
    """What a terminal of that many columns is sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *words], env=environment(home, TERM="xterm"), stdout=theirs, cwd=ROOT
    )
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:  # Linux's end of a terminal
        pass
    os.close(ours)
    process.wait(timeout=60)
    return re.sub(r"\x1b\[[0-9;]*m", "", b"".join(pieces).decode().replace("\r\n", "\n"))


def test_a_piped_table_has_whole_names_and_numbers(tmp_path: Path) -> None:
    rows = [line.split() for line in kvmath("catalogue", home=tmp_path).stdout.splitlines()]
    assert LLAMA_ROW in rows


def test_80_columns_hold_the_catalogue(tmp_path: Path) -> None:
    lines = on_terminal("catalogue", columns=80, home=tmp_path).splitlines()
    assert max(map(len, lines)) <= 80
    # The name folds, the numbers do not.
    assert LLAMA_ROW[1:] in [line.split()[1:] for line in lines]
    assert not any("…" in line for line in lines)


@pytest.mark.parametrize("columns", [40, 20])
def test_no_number_is_cut_however_narrow(tmp_path: Path, columns: int) -> None:
    shown = on_terminal("llama-3-8b", "--gpu", "h100", columns=columns, home=tmp_path)
    for text in ("131,072 B = 128.000 KiB", "16,060,522,496 B = 16.06 GB", "131,072 16.000 GiB"):
        assert text in re.sub(" +", " ", shown)
    assert "…" not in shown


def test_a_reader_that_leaves_is_no_traceback(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "catalogue", "--json"],
        env=environment(tmp_path),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 141


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("crossover llama-3-8b --output no-such-folder/x.png", "No such file or directory"),
        ("./nope", "there is no file or folder ./nope"),
        ("/no-such-folder/config.json", "there is no file or folder /no-such-folder/config.json"),
        ("Makefile", "Makefile is a file, but no .json file"),
        ("llama-3-8b --context 0", "kvmath: context: Input should be greater than or equal to 1"),
        ("verify no-such.log", "no-such.log: No such file or directory"),
    ],
)
def test_what_is_not_there_is_said_in_a_line(tmp_path: Path, words: str, says: str) -> None:
    done = kvmath(*words.split(), home=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_full_disk_is_bad_output(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "llama-3-8b"],
            env=environment(tmp_path),
            cwd=ROOT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert done.stderr == "kvmath: output: No space left on device\n"


@pytest.mark.parametrize("words", ["--gpu h100 llama-3-8b --json", "llama-3-8b --json --gpu h100"])
def test_options_stand_before_or_after_the_model(tmp_path: Path, words: str) -> None:
    answer = json.loads(kvmath(*words.split(), home=tmp_path).stdout)
    assert answer["kv"]["model"]["id"] == "meta-llama/Meta-Llama-3-8B"
    assert answer["concurrency"]["gpu"]["id"] == "h100-sxm-80gb"


def test_the_version(tmp_path: Path) -> None:
    assert kvmath("--version", home=tmp_path).stdout == f"kvmath {__version__}\n"


def test_the_catalogue_as_json(tmp_path: Path) -> None:
    found = json.loads(kvmath("catalogue", "--json", home=tmp_path).stdout)
    rows = {row["id"]: row for row in found["models"]}
    assert rows["meta-llama/Meta-Llama-3-8B"]["kv_bytes_per_sequence_8k"] == 131_072 * 8_192


@pytest.mark.parametrize(("contexts", "code"), [((4096, 10**7), 0), ((10**7, 4096), 1)])
def test_of_several_contexts_the_first_decides(
    tmp_path: Path, contexts: tuple[int, int], code: int
) -> None:
    words = [word for context in contexts for word in ("--context", str(context))]
    assert kvmath("llama-3-8b", "--gpu", "h100", *words, home=tmp_path).returncode == code


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
    "eos_token_id": 7,
}
# Embedding and head 2 x 100 x 64; a layer: q and o 2 x 64 x 64, k and v 2 x 64 x 32, MLP
# 3 x 64 x 128, two norms of 64; a last norm.
PARAMETERS = 2 * 6400 + 2 * (8192 + 4096 + 24576 + 128) + 64


async def test_a_catalogue_entry_from_the_hub(tmp_path: Path) -> None:
    async with FakeHub() as hub:
        counts = {"safetensors": {"parameters": {"BF16": PARAMETERS}}}
        hub.add("org/new", {"config.json": CONFIG}, info=counts)
        command = [*COMMAND, "catalogue", "--entry", "org/new"]
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment(tmp_path, HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="0"),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await process.communicate()
    assert err == b""
    entry = json.loads(out)
    assert (entry["id"], entry["revision"]) == ("org/new", COMMIT)
    assert "eos_token_id" not in entry["facts"]
    assert entry["facts"].items() <= CONFIG.items()
    assert len(entry["facts"]) == len(CONFIG) - 1
    assert entry["parameters"] == {"total": PARAMETERS, "active": PARAMETERS}
    assert entry["checkpoint_bytes"] == 2 * PARAMETERS
    assert entry["sources"]["parameters"] == "the element count that the Hub shows for org/new"
