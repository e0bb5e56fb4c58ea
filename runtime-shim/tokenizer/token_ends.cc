// Tokens whose meaning is known only by their text: those that end a generation, and those that
// count as control tokens whatever their type says. Source: llama.cpp v0.5.0.
#include <iterator>

#include "libshard/base/text/text.h"
#include "runtime-shim/tokenizer/token_table.h"

namespace moepack::runtime {
namespace {

constexpr std::string_view kEnds[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    "<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
    "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
    // With full-width bars and SentencePiece's mark for a space.
    "<\uff5cend\u2581of\u2581sentence\uff5c>", "[e~["};

// Tokens for filling in the middle; one of each kind is used, and only if its key
// tokenizer.ggml.<kind>_token_id is missing.
struct Filling {
  const char* kind;
  bool ends;  // a generation
  std::vector<std::string_view> texts;
};
const std::vector<Filling>& Fillings() {
  static const std::vector<Filling> fillings = {
      {"fim_pre",
       false,
       {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim\u2581begin\uff5c>", "<PRE>",
        "\u2581<PRE>", "<|code_prefix|>", "<|prefix|>"}},
      {"fim_suf",
       false,
       {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim\u2581hole\uff5c>", "<SUF>",
        "\u2581<SUF>", "<|code_suffix|>", "<|suffix|>"}},
      {"fim_mid",
       false,
       {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim\u2581end\uff5c>", "<MID>",
        "\u2581<MID>", "<|code_middle|>", "<|middle|>"}},
      {"fim_pad", true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
      {"fim_rep", true, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
      {"fim_sep", true, {"<|file_sep|>"}},
  };
  return fillings;
}

// Tokens of gpt-oss that are typed as control but are part of its text.
constexpr std::string_view kShown[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"};

}  // namespace

bool TokenTable::HasEnd(std::string_view text) const {
  const std::optional<uint32_t> id = Find(text);
  return id && ends_[*id];
}

void TokenTable::FindEnds(const GgufMetadata& metadata) {
  for (const Filling& filling : Fillings()) {
    if (metadata.Find(Cat("tokenizer.ggml.", filling.kind, "_token_id")) != nullptr) continue;
    // If there are several, llama.cpp takes any.
    for (const std::string_view text : filling.texts) {
      const std::optional<uint32_t> id = Find(text);
      if (!id) continue;
      types_[*id] = TokenType::kControl;
      if (filling.ends) ends_[*id] = true;
      break;
    }
  }
  for (const std::string_view text : kEnds) {
    const std::optional<uint32_t> id = Find(text);
    if (!id) continue;
    types_[*id] = TokenType::kControl;
    ends_[*id] = true;
  }
  for (const std::string_view text : kShown) {
    if (const std::optional<uint32_t> id = Find(text)) types_[*id] = TokenType::kUserDefined;
  }
  // If other tokens end a generation, <|end|> only ends a message, and </s> ends nothing.
  const bool calls = HasEnd("<|call|>") || HasEnd("<|calls|>");
  if (calls && (HasEnd("<|return|>") || HasEnd("<|flush|>")) && HasEnd("<|end|>")) {
    ends_[*Find("<|end|>")] = false;
    types_[*Find("<|end|>")] = TokenType::kUserDefined;
  }
  if (HasEnd("<|tool_response>") && HasEnd("</s>")) {
    ends_[*Find("</s>")] = false;
    types_[*Find("</s>")] = TokenType::kNormal;
  }
}

}  // namespace moepack::runtime
