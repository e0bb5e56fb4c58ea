// The files that Hugging Face repositories keep beside the weights, one row each.
#pragma once

#include <array>

namespace moepack {

struct BesideWeights {
  const char* name;
  // It belongs in a distribution (IsAssetName of manifest/document/asset_names.h, which also goes
  // by patterns).
  bool asset = true;
  // It affects what is written, so it must stay the same meanwhile (SideFiles).
  bool noted = false;
};

// All of them are requested from a server that makes no list of its files (HttpTree).
inline constexpr std::array kBesideWeights = {
    BesideWeights{.name = "config.json", .noted = true},
    BesideWeights{.name = "generation_config.json", .noted = true},
    BesideWeights{.name = "tokenizer.json", .noted = true},
    BesideWeights{.name = "tokenizer_config.json", .noted = true},
    BesideWeights{.name = "tokenizer.model", .noted = true},
    BesideWeights{.name = "tiktoken.model", .noted = true},
    BesideWeights{.name = "hy.tiktoken", .noted = true},
    BesideWeights{.name = "tekken.json"},
    BesideWeights{.name = "vocab.json", .noted = true},
    BesideWeights{.name = "vocab.txt"},
    BesideWeights{.name = "merges.txt", .noted = true},
    BesideWeights{.name = "added_tokens.json", .noted = true},
    BesideWeights{.name = "special_tokens_map.json", .noted = true},
    BesideWeights{.name = "chat_template.jinja", .noted = true},
    BesideWeights{.name = "chat_template.json", .noted = true},
    BesideWeights{.name = "preprocessor_config.json"},
    BesideWeights{.name = "processor_config.json"},
    BesideWeights{.name = "video_preprocessor_config.json"},
    BesideWeights{.name = "hf_quant_config.json"},
    // The model card: a distribution has one of its own.
    BesideWeights{.name = "README.md", .asset = false, .noted = true},
    BesideWeights{.name = "LICENSE"},
    BesideWeights{.name = "LICENSE.txt"},
    BesideWeights{.name = "NOTICE"},
};

}  // namespace moepack
