#include "runtime-shim/tokenizer/token_table.h"

#include <cmath>
#include <iterator>
#include <span>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

constexpr uint64_t kMaxTokens = 1u << 24;
// The head of an array: element type (u32) and count (u64).
constexpr size_t kArrayHead = 12;

std::string Describe(const GgufValue& value) {
  const auto element = value.ElementType();
  if (!element) return std::string(GgufTypeName(value.type));
  return Cat(value.Count(), " values of type ", GgufTypeName(*element));
}

// The elements of an array of 4-byte numbers with at least `count` of them.
template <class T>
Result<std::vector<T>> Numbers(const std::string& where, const GgufValue& value, GgufType type,
                               size_t count) {
  static_assert(sizeof(T) == 4);
  if (value.ElementType() != type || value.Count() < count) {
    return Error{Code::kCorrupt, Cat(where, ": expected ", count, " values of type ",
                                     GgufTypeName(type), ", found ", Describe(value))};
  }
  const auto bytes = std::as_bytes(std::span(value.bytes)).subspan(kArrayHead);
  std::vector<T> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = LoadLe<T>(bytes.subspan(i * sizeof(T)));
  return numbers;
}

// No value without the key.
Result<std::optional<uint32_t>> ReadId(const std::string& path, const GgufMetadata& metadata,
                                       const std::string& key, uint32_t count) {
  const GgufValue* value = metadata.Find(key);
  if (value == nullptr) return std::optional<uint32_t>();
  const std::optional<uint64_t> id = value->AsUint();
  if (id && *id < count) return std::optional<uint32_t>(static_cast<uint32_t>(*id));
  return Error{Code::kCorrupt, Cat(path, ": ", key, ": expected an id below ", count, ", found ",
                                   id ? Cat(*id) : Describe(*value))};
}

Result<bool> ReadFlag(const std::string& path, const GgufMetadata& metadata, const std::string& key,
                      bool fallback) {
  const GgufValue* value = metadata.Find(key);
  if (value == nullptr) return fallback;
  if (const std::optional<bool> flag = value->AsBool()) return *flag;
  return Error{Code::kCorrupt, Cat(path, ": ", key, ": expected a bool, found ", Describe(*value))};
}

}  // namespace

Result<TokenTable> TokenTable::Read(const std::string& path, const GgufMetadata& metadata,
                                    const TokenDefaults& defaults) {
  TokenTable table;
  SHARD_CHECK(table.ReadTexts(path, metadata));
  SHARD_CHECK(table.ReadTypes(path, metadata));
  SHARD_CHECK(table.ReadScores(path, metadata));
  SHARD_CHECK(table.ReadIds(path, metadata, defaults));
  table.FindEnds(metadata);
  return table;
}

std::optional<uint32_t> TokenTable::Find(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

Status TokenTable::ReadTexts(const std::string& path, const GgufMetadata& metadata) {
  const std::string where = Cat(path, ": tokenizer.ggml.tokens");
  const GgufValue* value = metadata.Find("tokenizer.ggml.tokens");
  if (value == nullptr || value->ElementType() != GgufType::kString || value->Count() == 0) {
    return Error{Code::kCorrupt, Cat(where, ": expected a list of strings, found ",
                                     value == nullptr ? "nothing" : Describe(*value))};
  }
  if (value->Count() > kMaxTokens) {
    return Error{Code::kUnsupported,
                 Cat(where, ": expected at most ", kMaxTokens, " tokens, found ", value->Count())};
  }
  const std::vector<std::string_view> texts = *value->AsStrings();
  for (const std::string_view text : texts) {
    // llama.cpp's names for them, so that texts stay distinct.
    texts_.push_back(text.empty() ? Cat("[EMPTY_", texts_.size(), "]") : std::string(text));
  }
  ids_.reserve(texts_.size());
  for (uint32_t id = 0; id < size(); ++id) {
    const auto [first, is_new] = ids_.try_emplace(texts_[id], id);
    if (is_new) continue;
    return Error{Code::kCorrupt, Cat(where, ": ", Quoted(texts_[id]), ": expected one id, found ",
                                     first->second, " and ", id)};
  }
  return Ok();
}

Status TokenTable::ReadTypes(const std::string& path, const GgufMetadata& metadata) {
  types_.assign(size(), TokenType::kNormal);
  const GgufValue* value = metadata.Find("tokenizer.ggml.token_type");
  if (value == nullptr) return Ok();
  const std::string where = Cat(path, ": tokenizer.ggml.token_type");
  SHARD_TRY(const auto numbers, Numbers<int32_t>(where, *value, GgufType::kI32, size()));
  for (uint32_t id = 0; id < size(); ++id) {
    // A type that the format does not have means nothing, as in llama.cpp.
    const bool known = numbers[id] >= static_cast<int32_t>(TokenType::kNormal) &&
                       numbers[id] <= static_cast<int32_t>(TokenType::kByte);
    types_[id] = known ? static_cast<TokenType>(numbers[id]) : TokenType::kUnused;
  }
  return Ok();
}

Status TokenTable::ReadScores(const std::string& path, const GgufMetadata& metadata) {
  scores_.assign(size(), 0.0f);
  const GgufValue* value = metadata.Find("tokenizer.ggml.scores");
  if (value == nullptr) return Ok();
  const std::string where = Cat(path, ": tokenizer.ggml.scores");
  SHARD_TRY(scores_, Numbers<float>(where, *value, GgufType::kF32, size()));
  for (uint32_t id = 0; id < size(); ++id) {
    if (!std::isnan(scores_[id])) continue;
    return Error{Code::kCorrupt, Cat(where, ": id ", id, ": expected a number, found NaN")};
  }
  return Ok();
}

Status TokenTable::ReadIds(const std::string& path, const GgufMetadata& metadata,
                           const TokenDefaults& defaults) {
  struct Special {
    const char* name;
    std::optional<uint32_t> fallback;
    std::optional<uint32_t>* id;
    bool add_fallback, always;
    bool* add;
  };
  const Special specials[] = {
      {"bos", defaults.bos, &bos_, defaults.add_bos, defaults.always_bos, &add_bos_},
      {"eos", defaults.eos, &eos_, false, false, &add_eos_}};
  for (const Special& special : specials) {
    const std::string key = Cat("tokenizer.ggml.", special.name, "_token_id");
    SHARD_TRY(*special.id, ReadId(path, metadata, key, size()));
    const bool fits = special.fallback && *special.fallback < size();
    if (metadata.Find(key) == nullptr && fits) *special.id = special.fallback;
    const std::string add_key = Cat("tokenizer.ggml.add_", special.name, "_token");
    SHARD_TRY(*special.add, ReadFlag(path, metadata, add_key, special.add_fallback));
    *special.add = *special.add || special.always;
    if (!*special.add || *special.id) continue;
    return Error{Code::kCorrupt, Cat(path, ": ", key,
                                     ": expected the token that every text gets, "
                                     "found nothing")};
  }
  ends_.assign(size(), false);
  if (eos_) ends_[*eos_] = true;
  for (const char* name : {"eot", "eom", "fim_pad", "fim_rep", "fim_sep"}) {
    const std::string key = Cat("tokenizer.ggml.", name, "_token_id");
    SHARD_TRY(const std::optional<uint32_t> id, ReadId(path, metadata, key, size()));
    if (id) ends_[*id] = true;
  }
  return Ok();
}

// Tokens whose meaning is known only by their text: those that end a generation, and those that
// count as control tokens whatever their type says. Source: llama.cpp v0.5.0.

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
