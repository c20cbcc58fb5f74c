"""State dicts of MMSegmentation's Swin transformer, alone or as `backbone` of a model, to and from the names that `leanburn` reads.

    python scripts/swin_weights.py to-leanburn theirs.pth swin.safetensors
    python scripts/swin_weights.py from-leanburn swin.safetensors theirs.pth
    python scripts/swin_weights.py check

MMSegmentation merges patches by `nn.Unfold`: the four positions of a channel lie behind each other, row by row; those of the authors and of
torchvision have all channels of a position behind each other, column by column. `check` compares both on random numbers, and a file that went
to the authors' names and back. Other parameters than the backbone's keep their names.
Needs: torch; safetensors but for `check`.
"""

import re
import sys

import torch

# Their names and the authors', which `leanburn` reads.
NAMES = [
    (r"patch_embed\.projection\.", "patch_embed.proj."),
    (r"stages\.(\d+)\.blocks\.(\d+)\.attn\.w_msa\.", r"layers.\1.blocks.\2.attn."),
    (r"stages\.(\d+)\.blocks\.(\d+)\.ffn\.layers\.0\.0\.", r"layers.\1.blocks.\2.mlp.fc1."),
    (r"stages\.(\d+)\.blocks\.(\d+)\.ffn\.layers\.1\.", r"layers.\1.blocks.\2.mlp.fc2."),
    (r"stages\.(\d+)\.", r"layers.\1."),
    (r"norm3\.", "norm."),
]
# torchvision's names, which `leanburn` writes, and theirs; the number of a part is twice that of its stage, and one more for its blocks.
WRITTEN = [
    (r"features\.0\.0\.", "patch_embed.projection."),
    (r"features\.0\.2\.", "patch_embed.norm."),
    (r"features\.(\d*[13579])\.(\d+)\.attn\.", r"stages.{}.blocks.\2.attn.w_msa."),
    (r"features\.(\d*[13579])\.(\d+)\.mlp\.0\.", r"stages.{}.blocks.\2.ffn.layers.0.0."),
    (r"features\.(\d*[13579])\.(\d+)\.mlp\.3\.", r"stages.{}.blocks.\2.ffn.layers.1."),
    (r"features\.(\d*[13579])\.(\d+)\.", r"stages.{}.blocks.\2."),
    (r"features\.(\d*[02468])\.", "stages.{}.downsample."),
    (r"norm\.", "norm3."),
]
MERGED = re.compile(r"(stages|layers)\.\d+\.downsample\.(norm|reduction)\.")
# Where position k of theirs lies among the authors'; its own inverse.
ORDER = [0, 2, 1, 3]


def renamed(name, names):
    """The name by the first rule that fits, behind `backbone.` where there is one."""
    prefix, rest = ("backbone.", name[9:]) if name.startswith("backbone.") else ("", name)
    for pattern, place in names:
        match = re.match(pattern, rest)
        if match:
            place = match.expand(place.replace("{}", str((int(match[1]) - 1) // 2 if "{}" in place else 0)))
            return prefix + place + rest[match.end() :]
    return name


def to_authors(value):
    """From the four positions of each channel to the channels of each position, along the last axis."""
    return value.unflatten(-1, (-1, 4)).transpose(-1, -2)[..., ORDER, :].flatten(-2).contiguous()


def from_authors(value):
    return value.unflatten(-1, (4, -1))[..., ORDER, :].transpose(-1, -2).flatten(-2).contiguous()


def to_leanburn(theirs):
    """The index of relative positions follows from the window's size and is left out."""
    kept = {name: value for name, value in theirs.items() if not name.endswith("relative_position_index")}
    return {
        renamed(name, NAMES): to_authors(value) if MERGED.search(name) else value.contiguous() for name, value in kept.items()
    }


def from_leanburn(ours):
    named = {renamed(name, WRITTEN): value for name, value in ours.items() if not name.endswith("relative_position_index")}
    return {name: from_authors(value) if MERGED.search(name) else value for name, value in named.items()}


def check():
    torch.manual_seed(1)
    channels, x = 3, torch.randn(2, 3, 6, 8)
    positions = [x[:, :, row::2, column::2] for column in (0, 1) for row in (0, 1)]
    authors = torch.cat(positions, dim=1).flatten(2).transpose(1, 2)
    theirs = torch.nn.functional.unfold(x, 2, stride=2).transpose(1, 2)
    weight = torch.randn(5, 4 * channels)
    assert torch.equal(to_authors(theirs), authors) and torch.equal(from_authors(authors), theirs)
    assert torch.allclose(theirs @ weight.T, authors @ to_authors(weight).T, atol=1e-6)
    parts = ["patch_embed.projection.weight", "patch_embed.norm.bias", "norm3.weight", "stages.2.downsample.norm.weight"]
    parts += [f"stages.2.blocks.5.{part}" for part in ("norm1.bias", "attn.w_msa.qkv.weight", "attn.w_msa.relative_position_bias_table")]
    parts += [f"stages.2.blocks.5.ffn.layers.{part}.bias" for part in ("0.0", "1")]
    written = ["features.0.0.weight", "features.0.2.bias", "norm.weight", "features.6.norm.weight", "features.5.5.norm1.bias"]
    written += ["features.5.5.attn.qkv.weight", "features.5.5.attn.relative_position_bias_table"]
    written += ["features.5.5.mlp.0.bias", "features.5.5.mlp.3.bias"]
    for theirs, ours in zip(parts, written):
        assert renamed(f"backbone.{ours}", WRITTEN) == f"backbone.{theirs}", (ours, renamed(ours, WRITTEN))
    read = [renamed(name, NAMES) for name in parts]
    assert read[:4] == ["patch_embed.proj.weight", "patch_embed.norm.bias", "norm.weight", "layers.2.downsample.norm.weight"], read
    assert read[4:7] == [f"layers.2.blocks.5.{part}" for part in ("norm1.bias", "attn.qkv.weight", "attn.relative_position_bias_table")]
    assert read[7:] == [f"layers.2.blocks.5.mlp.{part}.bias" for part in ("fc1", "fc2")], read
    print("both orders merge patches alike; names go there and back")


def main():
    match sys.argv[1:]:
        case ["check"]:
            check()
        case ["to-leanburn", source, target]:
            from safetensors.torch import save_file

            state = torch.load(source, map_location="cpu", weights_only=True)
            save_file(to_leanburn(state.get("state_dict", state)), target)
        case ["from-leanburn", source, target]:
            from safetensors.torch import load_file

            torch.save({"state_dict": from_leanburn(load_file(source))}, target)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
