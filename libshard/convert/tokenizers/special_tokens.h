// Which tokens begin, end and fill a text, and whether the runtime adds them itself.
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

// By kind: "bos", "eos", "eot", "eom", "unk", "sep", "pad", "mask".
struct SpecialTokens {
  std::map<std::string, uint32_t> ids;
  std::map<std::string, bool> add;  // "bos", "eos", "sep"
};

// By content in tokenizer_config.json first, then ids in config.json (a list is ignored): the first
// value found counts. `add` is guessed from the template of the post-processor and overruled by
// add_*_token. Ids from `tokens` on do not count.
Result<SpecialTokens> ReadSpecialTokens(const TokenizerFiles& files, const HfConfig& config,
                                        uint32_t tokens);

// The token that a family uses for a purpose by its text.
struct SpecialText {
  const char* kind;
  const char* text;
};
// Sets kinds without an id whose text is an added token with an id below `tokens`.
void SetByText(const TokenizerFiles& files, const std::vector<SpecialText>& texts, uint32_t tokens,
               SpecialTokens& special);

// tokenizer.ggml.*_token_id and add_*_token. A family may have set some before: they stay.
void AddSpecialTokens(const SpecialTokens& special, GgufMetadata& metadata);

// tokenizer.ggml.add_space_prefix, where tokenizer_config.json says it (add_prefix_space); for
// families whose converter is that of the Llama class.
void AddSpacePrefix(const TokenizerFiles& files, GgufMetadata& metadata);

}  // namespace moepack
