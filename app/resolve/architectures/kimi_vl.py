"""Kimi-VL and Kimi K2.5, K2.6: DeepSeek's text model behind MoonViT."""

from app.core.inventory import Part, Weight
from app.core.model import ModelShape
from app.resolve.architectures import family
from app.resolve.architectures.blocks_encoder import (
    array,
    dense_chain,
    encoder_layers,
    layer_norm,
    patch_conv,
    read_tower,
)
from app.resolve.architectures.fields import Config
from app.resolve.architectures.multimodal import multimodal, text_model

TOWER_SPELLINGS = (
    ("vt_hidden_size", "hidden_size"),
    ("vt_intermediate_size", "intermediate_size"),
    ("vt_num_hidden_layers", "num_hidden_layers"),
    ("vt_num_attention_heads", "num_attention_heads"),
)


@family("kimi_vl", architectures=("KimiVLForConditionalGeneration",))
def kimi_vl(config: Config) -> ModelShape:
    """Latents of DeepSeek V2 (Moonlight); four patches a token. Defaults: MoonViTConfig."""
    text = text_model(config, prefix="language_model.", model_type="deepseek_v2")
    return multimodal(
        config,
        text,
        moon_vit(config.section("vision_config"), text.hidden_size, "multi_modal_projector"),
    )


@family(
    "kimi_k25",
    architectures=("KimiK25ForConditionalGeneration", "Kimi_K25ForConditionalGeneration"),
)
def kimi_k25(config: Config) -> ModelShape:
    """Latents of DeepSeek V3 (Kimi K2). Defaults: Kimi_K25Config and its vision config."""
    text = text_model(config, prefix="language_model.", model_type="deepseek_v3", tied=True)
    return multimodal(
        config, text, moon_vit(config.section("vision_config"), text.hidden_size, "mm_projector")
    )


def moon_vit(config: Config, out: int, projector: str) -> list[Weight]:
    """A ViT with learned positions on a grid, resized to the image, and the projector of merged
    patches to `out`.
    """
    stated = {name: value for name, value in config.data.items() if value is not None}
    for theirs, usual in TOWER_SPELLINGS:
        if theirs in stated:
            stated.setdefault(usual, stated[theirs])
    config = Config(stated, path=config.path)
    tower = read_tower(config, layers=27, hidden=1152, heads=16, intermediate=4304)
    rows = config.integer("init_pos_emb_height", "pos_emb_height", default=64, maximum=2**16)
    columns = config.integer("init_pos_emb_width", "pos_emb_width", default=64, maximum=2**16)
    kernel = config.integers("merge_kernel_size", minimum=1, maximum=64) or [2, 2]
    merged = tower.hidden * kernel[0] * kernel[-1]
    at = "vision_tower"
    return [
        patch_conv(f"{at}.patch_embed.proj", tower),
        array(f"{at}.patch_embed.pos_emb", rows, columns, tower.hidden, part=Part.VISION),
        *encoder_layers(
            f"{at}.encoder.blocks.{{layer}}",
            tower.hidden,
            tower.intermediate,
            tower.all_layers,
            attention="",
            qkvo=("wqkv", "wo"),
            mlp=("mlp.fc0", "mlp.fc1"),
            norms=("norm0", "norm1"),
        ),
        layer_norm(f"{at}.encoder.final_layernorm", tower.hidden, part=Part.VISION),
        layer_norm(f"{projector}.pre_norm", tower.hidden, part=Part.PROJECTOR),
        *dense_chain(projector, ("linear_1", merged, merged), ("linear_2", out, merged)),
    ]
