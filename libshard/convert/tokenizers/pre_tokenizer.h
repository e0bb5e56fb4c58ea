// Recognising the pre-tokenizer and what stands before it: llama.cpp has one built in for each name
// in tokenizer.ggml.pre.
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

// The name for the `pre_tokenizer` of a tokenizer.json, by its regular expressions and settings.
// Where several names share them, `family_pre` if it is among them, else the usual one.
// kUnsupported, naming what was found, for one that the table does not have.
Result<std::string> RecognisePreTokenizer(const std::string& where, const Json& pre_tokenizer,
                                          std::string_view family_pre);

// What a byte-level BPE may do to a text first: nothing, or NFC, which the runtime leaves out for
// the pre-tokenizers that have it (most texts are NFC already). kUnsupported, naming it, for
// anything else.
Status CheckNormalizer(const std::string& where, const Json& normalizer);

}  // namespace moepack
