// Which tokens begin, end and pad a text, and whether the runtime adds them itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/tokenizers/tokenizer_files.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/model/hf_config.h"

namespace moepack {

struct Vocabulary;

// By kind: "bos", "eos", "eot", "eom", "unk", "sep", "pad", "mask".
struct SpecialTokens {
  std::map<std::string, uint32_t> ids;
  std::map<std::string, bool> add;  // "bos", "eos", "sep"
};

// The first value found counts: by content in tokenizer_config.json, then by id in config.json (a
// list is ignored). `add` is inferred from the post-processor's template and overridden by
// add_*_token. Ids of `tokens` and above do not count.
Result<SpecialTokens> ReadSpecialTokens(const TokenizerFiles& files, const HfConfig& config,
                                        uint32_t tokens);

// A token that a family uses for a purpose, identified by its text.
struct SpecialText {
  const char* kind;
  const char* text;
};
// Sets kinds without an id whose text is an added token with an id below `tokens`.
void SetByText(const TokenizerFiles& files, const std::vector<SpecialText>& texts, uint32_t tokens,
               SpecialTokens& special);

// Sets "eot" to the first id of the list eos_token_id of config.json that is not bos_token_id, if
// eos_token_id is a list there, for families whose turns end with another token than texts.
void SetTurnEnd(const HfConfig& config, uint32_t tokens, SpecialTokens& special);

// tokenizer.ggml.*_token_id and add_*_token. Keys that a family has already set stay.
void AddSpecialTokens(const SpecialTokens& special, GgufMetadata& metadata);

// tokenizer.ggml.add_space_prefix, if tokenizer_config.json has add_prefix_space; for families that
// use the converter of the Llama class (HfFamily::tokenizer_keys).
Status AddSpacePrefix(const TokenizerFiles& files, const Vocabulary& vocabulary,
                      GgufMetadata& metadata);

}  // namespace moepack
