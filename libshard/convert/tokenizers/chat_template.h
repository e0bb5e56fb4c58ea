// The chat template, byte for byte.
#pragma once

#include "libshard/base/result.h"
#include "libshard/convert/tokenizers/tokenizer_files.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack {

// tokenizer.chat_template, and for named templates tokenizer.chat_template.<name> with the list
// tokenizer.chat_templates. Taken from tokenizer_config.json if it has one, otherwise from
// chat_template.jinja (and additional_chat_templates/*.jinja), otherwise from chat_template.json.
// Without a tokenizer_config.json nothing is written, as in llama.cpp's converter.
Status AddChatTemplate(const TokenizerFiles& files, GgufMetadata& metadata);

}  // namespace moepack
