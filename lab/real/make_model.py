# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 the pdops authors
"""Writes a tiny Llama with seeded random weights and its own tokenizer. Downloads nothing.

Run by the interpreter of the real environment: python make_model.py FOLDER. The folder appears whole or not at all.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

SEED = 7
VOCABULARY = 512
SPECIAL = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>", "<|system|>"]
TEXT = "the quick brown fox jumps over the lazy dog. hello world, how are you today? "
CHAT = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
HIDDEN, INNER, LAYERS, HEADS, KEY_HEADS, HEAD = 128, 256, 2, 4, 2, 32
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KEY_HEADS,
    "head_dim": HEAD,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 1,
    "torch_dtype": "bfloat16",
    "attention_bias": False,
}


def write_tokenizer(folder: str) -> None:
    """A byte-level tokenizer trained on one sentence."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([TEXT] * 50, trainer)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    write_json(
        folder,
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": SPECIAL[0],
            "eos_token": SPECIAL[1],
            "pad_token": SPECIAL[1],
            "model_max_length": 2048,
            "chat_template": CHAT,
        },
    )


def write_weights(folder: str) -> None:
    """Seeded: the same answer to the same question on every machine, and logits far enough apart to compare."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(SEED)

    def random(*shape: int) -> Any:
        return (torch.randn(*shape) * (1.5 / shape[-1] ** 0.5)).to(torch.bfloat16)

    weights = {
        "model.embed_tokens.weight": torch.randn(VOCABULARY, HIDDEN).to(torch.bfloat16),
        "lm_head.weight": random(VOCABULARY, HIDDEN) * 3,
        "model.norm.weight": torch.ones(HIDDEN, dtype=torch.bfloat16),
    }
    # Special tokens are never the likeliest, so a greedy answer always has text and ends by its length.
    weights["lm_head.weight"][: len(SPECIAL)] = 0
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        weights[at + "self_attn.q_proj.weight"] = random(HIDDEN, HIDDEN)
        weights[at + "self_attn.k_proj.weight"] = random(KEY_HEADS * HEAD, HIDDEN)
        weights[at + "self_attn.v_proj.weight"] = random(KEY_HEADS * HEAD, HIDDEN)
        weights[at + "self_attn.o_proj.weight"] = random(HIDDEN, HIDDEN)
        weights[at + "mlp.gate_proj.weight"] = random(INNER, HIDDEN)
        weights[at + "mlp.up_proj.weight"] = random(INNER, HIDDEN)
        weights[at + "mlp.down_proj.weight"] = random(HIDDEN, INNER)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            weights[at + norm + ".weight"] = torch.ones(HIDDEN, dtype=torch.bfloat16)
    save_file(weights, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})


def write_json(folder: str, name: str, data: dict[str, Any]) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1)


def main() -> int:
    target = os.path.abspath(sys.argv[1])
    folder = f"{target}.{os.getpid()}"
    os.makedirs(folder)
    try:
        write_tokenizer(folder)
        write_weights(folder)
        write_json(folder, "config.json", CONFIG)
        write_json(folder, "generation_config.json", {"bos_token_id": 0, "eos_token_id": 1})
        os.rename(folder, target)
    except OSError:
        # Another one made it in the meantime: then it is there.
        if not os.path.exists(os.path.join(target, "config.json")):
            raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
