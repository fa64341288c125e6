"""Request bodies that `/docs` offers and the tests run: the text's own worked examples."""

from typing import Any

KV: dict[str, Any] = {
    "llama-3-8b": {
        "summary": "Llama-3-8B at 8k: 131,072 bytes a token, 1.07 GB a sequence",
        "value": {"model": "llama-3-8b", "context": 8192, "explain": True},
    },
    "inline-config": {
        "summary": "A config.json of one's own",
        "value": {
            "config": {
                "model_type": "llama",
                "num_hidden_layers": 32,
                "hidden_size": 4096,
                "num_attention_heads": 32,
                "num_key_value_heads": 8,
                "intermediate_size": 14336,
                "vocab_size": 128256,
                "max_position_embeddings": 8192,
                "torch_dtype": "bfloat16",
            },
            "context": 4096,
        },
    },
    "tensor-parallel": {
        "summary": "Llama-3-70B on 8 GPUs: 40 KiB a token on each",
        "value": {"model": "llama-3-70b", "context": 8192, "tensor_parallel_size": 8},
    },
}

CONCURRENCY: dict[str, Any] = {
    "llama-3-8b": {
        "summary": "Llama-3-8B on one H100: 111, 55, 13 and 3 sequences",
        "value": {
            "model": "llama-3-8b",
            "weight_bytes": 16060000000,
            "gpu": "h100",
            "contexts": [4096, 8192, 32768, 131072],
            "explain": True,
        },
    },
    "does-not-fit": {
        "summary": "Llama-3-70B on one H100 does not fit; what to do",
        "value": {"model": "llama-3-70b", "gpu": "h100", "context": 8192},
    },
    "budget": {
        "summary": "A KV budget of one's own",
        "value": {"model": "mha-8b", "kv_budget_bytes": 60000000000, "context": 8192},
    },
}

CROSSOVER: dict[str, Any] = {
    "llama-3-8b": {
        "summary": "Llama-3-8B crosses over at 122,528 token slots",
        "value": {
            "model": "llama-3-8b",
            "weight_bytes": 16060000000,
            "batches": [32, 64, 128],
            "context": 4096,
            "gpu": "h100",
        },
    },
}

PLAN: dict[str, Any] = {
    "llama-3-70b": {
        "summary": "2,000 users of Llama-3-70B at 6k: 13 nodes of 8 H100",
        "value": {
            "model": "llama-3-70b",
            "weight_bytes": 141200000000,
            "gpu": "h100",
            "gpus_per_node": 8,
            "tensor_parallel_size": 8,
            "concurrent_users": 2000,
            "context": 6000,
            "itl_slo_ms": 60,
            "node_overhead_bytes": 24000000000,
        },
    },
}
