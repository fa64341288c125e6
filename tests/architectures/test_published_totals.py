"""Totals of published models: each with its source, or worked out from the tensors' shapes."""

from typing import Any

import pytest

from app.resolve.architectures import shape_from_config

# DeepSeek-OCR: its safetensors index, resaved in fp32 (kurokencom/DeepSeekOcrCPUWin on GitHub at
# f3a2e5a, model/model.safetensors.index.json), has 13,344,427,016 bytes. CLIP's 257 position ids in
# int64 are 2,056 of them, the rest are parameters of 4 bytes.
OCR = {
    "model_type": "deepseek_vl_v2",
    "architectures": ["DeepseekOCRForCausalLM"],
    "language_config": {
        "model_type": "deepseek_v2",
        "hidden_size": 1280,
        "num_hidden_layers": 12,
        "num_attention_heads": 10,
        "num_key_value_heads": 10,
        "intermediate_size": 6848,
        "moe_intermediate_size": 896,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
        "first_k_dense_replace": 1,
        "kv_lora_rank": None,
        "use_mla": False,
        "vocab_size": 129280,
    },
}
# Phi-3-vision: Phi-3-mini has 3,821,079,552 parameters (transformers), CLIP ViT-L/14 at 336 pixels
# 303,507,456 (transformers, CLIPVisionModel), the projector 4096 x 3072 and 3072 x 3072 with biases
# = 22,026,240, the two separators 4096 each. The sum is what mteb lists for a model made of
# Phi-3.5-vision, which has the same sizes (vlm2vec_models.py, VLM2Vec-Full: 4146621440).
PHI3_VISION = {
    "model_type": "phi3_v",
    "hidden_size": 3072,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "intermediate_size": 8192,
    "vocab_size": 32064,
    "img_processor": {"image_dim_out": 1024},
}


@pytest.mark.parametrize(
    ("config", "total"),
    [
        (OCR, (13_344_427_016 - 257 * 8) // 4),
        (PHI3_VISION, 3_821_079_552 + 303_507_456 + 22_026_240 + 2 * 4096),
        # T5 v1.1 XXL's encoder, as FLUX.1-schnell has it (text_encoder_2, bf16): 9,524,621,312 bytes
        # in its index, which exo-explore/exo repeats in its model cards
        (
            {
                "model_type": "t5",
                "architectures": ["T5EncoderModel"],
                "d_model": 4096,
                "d_ff": 10240,
                "num_layers": 24,
                "num_heads": 64,
                "feed_forward_proj": "gated-gelu",
                "tie_word_embeddings": False,
            },
            9_524_621_312 // 2,
        ),
        # RWKV-5 World 1.5B, from the shapes of its tensors (BlinkDL/RWKV-LM, RWKV-v5/src/model.py),
        # D = 2048 wide. Of 24 layers each: receptance, key, value, gate and output D x D, and the
        # second half's receptance D x D, key and value 3.5 D x D, are 13 D x D; two layer norms
        # and the one on the heads, decay, bonus and 6 mixes are 14 D. Embedding and head of 65536
        # words; a norm before the layers and one after.
        (
            {"model_type": "rwkv5", "hidden_size": 2048},
            24 * (13 * 2048**2 + 14 * 2048) + 2 * 65536 * 2048 + 4 * 2048,
        ),
        # RWKV-7 World 0.4B (RWKV-v7/rwkv_v7_demo.py), D = 1024. Of 24 layers each: receptance, key,
        # value and output D x D, the second half's key and value 4 D x D: 12 D x D; decay, rate and
        # gate through ranks of 64, 64 and 128, twice D wide each; 18 D of norms, mixes and offsets.
        # All layers but the first mix values through a rank of 32 and an offset. Both ends as in
        # RWKV-5. Its published file (RWKV7-Goose-World2.9-0.4B-HF, e94655a) has 901,620,328 bytes:
        # two a parameter, and a header.
        (
            {
                "model_type": "rwkv7",
                "hidden_size": 1024,
                "vocab_size": 65536,
                "v_low_rank_dim": 32,
            },
            24 * (12 * 1024**2 + 2 * 1024 * (64 + 64 + 128) + 18 * 1024)
            + 23 * (2 * 1024 * 32 + 1024)
            + 2 * 65536 * 1024
            + 4 * 1024,
        ),
    ],
)
def test_published_totals(config: dict[str, Any], total: int) -> None:
    assert shape_from_config(config).parameters.total == total
