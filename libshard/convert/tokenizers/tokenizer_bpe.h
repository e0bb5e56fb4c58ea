// Recognises the pre-tokenizer and the normalizer before it: llama.cpp has a built-in one for each
// name in tokenizer.ggml.pre.
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

// The name for the `pre_tokenizer` of a tokenizer.json, by its regular expressions and settings. If
// several names share them, `family_pre` if it is among them, otherwise the usual one.
// kUnsupported, naming what was found, for one that is not in the table.
Result<std::string> RecognisePreTokenizer(const std::string& where, const Json& pre_tokenizer,
                                          std::string_view family_pre);

// Checks what a byte-level BPE does to a text first. It may do nothing, or apply NFC, which the
// runtime skips for the pre-tokenizers that use it (most texts are NFC already). kUnsupported,
// naming it, for anything else.
Status CheckNormalizer(const std::string& where, const Json& normalizer);

}  // namespace moepack
