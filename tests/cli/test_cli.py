"""`kvmath` as a person and as a script would run it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.logs import samples

CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
}


def kvmath(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from app.cli import main; main()", *words]
    environment = {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "PATH": "", "COLUMNS": "120"}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("llama-3-8b --gpu h100", 0),
        ("llama-3-8b", 0),
        ("llama-3-70b --gpu h100", 1),
        # 55 sequences of 8,192 tokens: (80e9 - 16,060,522,496 - 4e9) / 2^30 = 55.8
        ("llama-3-8b --gpu h100 --context 8192 --set batch=55", 0),
        ("llama-3-8b --gpu h100 --context 8192 --set batch=56", 1),
        ("llama-3-8b --gpu h100 --context 8192 --engine vllm --set max_model_len=8192", 0),
        ("llama-3-8b --gpu h100 --context 8192 --engine vllm --set max_model_len=4096", 1),
        ("llama-3-8b --gpu h1000", 2),
        ("llama-3-8b --context 0", 2),
        ("no-such-alias", 2),
        ("org/not-in-the-catalogue", 3),
        ("crossover llama-3-8b --batch 32", 0),
        ("plan llama-3-8b --gpu h100 --users 100 --context 4096", 0),
        ("plan llama-3-8b --gpu h100 --users 9 --context 4096 --itl-slo-ms 1", 1),
        (
            "plan llama-3-8b --gpu h100 --users 9 --context 8192 --engine vllm"
            " --set max_model_len=4096",
            1,
        ),
        ("catalogue", 0),
        ("--help", 0),
    ],
)
def test_exit_codes(tmp_path: Path, command: str, code: int) -> None:
    done = kvmath(*command.split(), home=tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert (done.stderr != "") == (code in (2, 3))


def test_a_config_file_and_a_folder(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG), encoding="utf-8")
    for model in (str(file), str(tmp_path)):
        done = kvmath(model, "--context", "8192", "--gpu", "h100", "--json", home=tmp_path)
        answer = json.loads(done.stdout)
        # 2 x 32 x 8 x 128 x 2; x 8,192; (80e9 - 16,060,522,496 - 4e9) / 1,073,741,824 = 55.8
        assert answer["kv"]["kv_bytes_per_token"] == 131_072
        assert answer["kv"]["kv_bytes_per_sequence"] == 1_073_741_824
        assert answer["concurrency"]["max_concurrency"] == 55
        assert done.returncode == 0


def test_the_table_a_person_reads(tmp_path: Path) -> None:
    shown = kvmath("llama-3-8b", "--gpu", "h100", "--explain", home=tmp_path).stdout
    for text in ("8,030,261,248", "131,072 B", "1.000 GiB", "111", "2 x 32 x 8 x 128 x 2"):
        assert text in shown


def test_fewer_than_asked_for_comes_with_the_advice(tmp_path: Path) -> None:
    words = ("llama-3-8b", "--gpu", "h100", "--context", "8192", "--set", "batch=100")
    shown = kvmath(*words, home=tmp_path).stdout
    assert "55 of 100 sequences" in shown
    # 59,939,477,504 / (100 x 131,072) = 4,573.0 tokens
    assert "Cut the context to 4,573 tokens: 100 sequences fit." in shown
    assert "Admit 55 sequences at once instead of 100." in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "--set max_num_seq=256",
            "max_num_seq: there is no such field; did you mean max_num_seqs?",
        ),
        ("--set gpu_memory_utilization=2", "gpu_memory_utilization: Input should be less"),
        ("--context 0", "context: Input should be greater"),
        ("--tp 0", "tensor_parallel_size: Input should be greater"),
    ],
)
def test_a_field_is_named_as_in_the_service(tmp_path: Path, words: str, said: str) -> None:
    done = kvmath("llama-3-8b", *words.split(), home=tmp_path)
    assert done.stderr.startswith(f"kvmath: {said}")
    assert done.returncode == 2


def test_only_what_was_given_counts_as_given(tmp_path: Path) -> None:
    shown = kvmath("llama-3-8b", "--gpu", "h100", home=tmp_path).stdout
    assert "takes no account of" not in shown


def test_a_picture(tmp_path: Path) -> None:
    output = tmp_path / "curve.png"
    done = kvmath("crossover", "llama-3-8b", "--output", str(output), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert output.read_bytes().startswith(b"\x89PNG")


def test_a_file_that_is_no_config(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("[1, 2", encoding="utf-8")
    done = kvmath(str(file), home=tmp_path)
    assert done.returncode == 2
    assert "config.json" in done.stderr


@pytest.mark.parametrize(
    ("log", "words", "code"),
    [
        (samples.VLLM_V1, "--model llama-3-8b --gpu h100", 0),
        (samples.SGLANG, "--model llama-3-8b --gpu h100", 0),
        (samples.LLAMA_CPP, "--model llama-3-8b", 0),
        (samples.VLLM_V1, "", 0),
        (samples.VLLM_TOO_SMALL, "--model llama-3-8b --gpu h100", 1),
        ("nothing of interest", "", 2),
        ("", "", 2),
        (samples.VLLM_V1, "--gpu h1000", 2),
        (samples.VLLM_V1, "--model org/not-in-the-catalogue --gpu h100", 3),
    ],
)
def test_verify_exit_codes(tmp_path: Path, log: str, words: str, code: int) -> None:
    file = tmp_path / "start.log"
    file.write_text(log, encoding="utf-8")
    done = kvmath("verify", str(file), *words.split(), home=tmp_path)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert (done.stderr != "") == (code in (2, 3))


def test_verify_says_what_a_colleague_would(tmp_path: Path) -> None:
    (tmp_path / "start.log").write_text(samples.VLLM_V0, encoding="utf-8")
    model = tmp_path / "config.json"
    model.write_text(json.dumps(CONFIG), encoding="utf-8")
    words = ("--model", str(model), "--gpu", "3090")
    done = kvmath("verify", str(tmp_path / "start.log"), *words, home=tmp_path)
    assert max(map(len, done.stdout.splitlines())) <= 80
    said = " ".join(done.stdout.split())
    # 7,454 x 16 tokens; 8,192 / 16 blocks a sequence
    assert "7,454 blocks x 16 tokens = 119,264 tokens" in said
    assert "takes 512 blocks" in said
    assert "the cache is laid out as expected" in said
    assert "From the calculator" in said


def test_verify_as_json_and_a_file_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "start.log").write_text(samples.VLLM_V0, encoding="utf-8")
    done = kvmath("verify", str(tmp_path / "start.log"), "--json", home=tmp_path)
    assert json.loads(done.stdout)["read"]["measured"]["num_blocks"] == 7454
    done = kvmath("verify", str(tmp_path / "none.log"), home=tmp_path)
    assert done.returncode == 2
    assert "none.log" in done.stderr


def test_any_field_of_the_request_by_its_own_name(tmp_path: Path) -> None:
    budget = ["--engine", "vllm", "--context", "8192", "--set", "kv_budget_bytes=10737418240"]
    done = kvmath("llama-3-8b", *budget, home=tmp_path)
    # 10 GiB / 2 MiB = 5,120 blocks of 16 tokens; 512 a request of 8,192.
    assert done.returncode == 0, done.stderr
    for text in ("5,120 of 16 tokens", "81,920", "10.00x"):
        assert text in done.stdout
    assert kvmath("llama-3-8b", "--set", "no_such_field=1", home=tmp_path).returncode == 2
    assert kvmath("llama-3-8b", "--set", "batch", home=tmp_path).returncode == 2
