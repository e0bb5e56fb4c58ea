#include "libshard/convert/tokenizers/tokenizer_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxTokenizerBytes = 256u << 20;
// Limits for a document and for a list of tokens; the largest tokenizers have 2 million values in
// total, of which some ten thousand belong to added tokens.
constexpr size_t kMaxValues = 1u << 22, kMaxAddedTokens = 1u << 18;
// All files that HasFile is asked for. None of them may count as absent because it cannot be read.
constexpr const char* kNames[] = {
    "tokenizer.json",      "tokenizer_config.json", "added_tokens.json",
    "merges.txt",          "tokenizer.model",       "tiktoken.model",
    "chat_template.jinja", "chat_template.json",    "hy.tiktoken"};
constexpr size_t kSafeDigits = 18;  // this many always fit in 64 bits

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Whether digits that follow this text belong to the fraction or the exponent of a number.
bool IsTail(std::string_view before) {
  if (before.ends_with('+') || before.ends_with('-')) {
    before.remove_suffix(1);
    return before.ends_with('e') || before.ends_with('E');
  }
  return before.ends_with('.') || before.ends_with('e') || before.ends_with('E');
}

const Json* Member(const Json* object, const char* key) {
  if (object == nullptr) return nullptr;
  const auto found = object->find(key);
  return found == object->end() || found->is_null() ? nullptr : &*found;
}

Result<std::shared_ptr<const Json>> ReadObject(const SourceTree& tree, const std::string& name) {
  const std::string path = tree.NameOf(name);
  SHARD_TRY(const std::string text, tree.ReadText(name, kMaxTokenizerBytes));
  SHARD_CHECK(CheckJsonValues(path, text, kMaxValues));
  SHARD_TRY(Json json, ParseTokenizerJson(path, text));
  if (!json.is_object()) {
    return Error{Code::kCorrupt, Cat(path, ": expected a JSON object, found ", DescribeJson(json))};
  }
  return std::make_shared<const Json>(std::move(json));
}

Error WrongToken(const std::string& where, const Json& value) {
  return {Code::kCorrupt, Cat(where, ": expected a token with a 32-bit id and content, found ",
                              DescribeJson(value))};
}

// {"content": ..., "special": ...}; the id is beside it or in it.
Result<AddedToken> TokenOf(const std::string& where, const Json& value, const Json& id) {
  const Json* content = value.is_object() ? Member(&value, "content") : nullptr;
  const Json* special = value.is_object() ? Member(&value, "special") : nullptr;
  const bool good_id = id.is_number_unsigned() && id.get<uint64_t>() < UINT32_MAX;
  if (!good_id || content == nullptr || !content->is_string() ||
      (special != nullptr && !special->is_boolean())) {
    return WrongToken(where, value);
  }
  return AddedToken{id.get<uint32_t>(), content->get<std::string>(),
                    special != nullptr && special->get<bool>()};
}

Status CheckTokenCount(const std::string& where, size_t count) {
  if (count <= kMaxAddedTokens) return Ok();
  return Error{Code::kCorrupt,
               Cat(where, ": expected at most ", kMaxAddedTokens, " tokens, found ", count)};
}

void SortById(std::vector<AddedToken>& tokens) {
  std::stable_sort(tokens.begin(), tokens.end(),
                   [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
}

}  // namespace

Result<Json> ParseTokenizerJson(const std::string& where, std::string_view text) {
  std::string out;
  size_t copied = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (quoted && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && IsDigit(text[i])) {
      const size_t end = std::min(text.find_first_not_of("0123456789", i), text.size());
      const bool whole = end == text.size() || (text[end] != '.' && (text[end] | 0x20) != 'e');
      if (whole && !IsTail(text.substr(0, i)) && end - i > kSafeDigits) {
        out.append(text, copied, end - copied).append(".0");
        copied = end;
      }
      i = end - 1;
    }
  }
  if (copied == 0) return ParseJson(where, text);
  out.append(text, copied);
  return ParseJson(where, out);
}

const Json* TokenizerFiles::Tokenizer(const char* key) const {
  return Member(tokenizer_.get(), key);
}

const Json* TokenizerFiles::Config(const char* key) const { return Member(config_.get(), key); }

Result<TokenizerFiles> TokenizerFiles::Read(const SourceTreePtr& tree) {
  TokenizerFiles files;
  files.tree_ = tree;
  for (const char* name : kNames) {
    SHARD_TRY(const bool there, tree->Has(name));
    if (there) files.present_.insert(name);
  }
  if (files.HasFile("tokenizer.json")) {
    SHARD_TRY(files.tokenizer_, ReadObject(*tree, "tokenizer.json"));
  }
  if (files.HasFile("tokenizer_config.json")) {
    SHARD_TRY(files.config_, ReadObject(*tree, "tokenizer_config.json"));
  }
  SHARD_CHECK(files.ReadAdded());
  SHARD_CHECK(files.ReadDecoder());
  if (files.HasFile("added_tokens.json")) SHARD_CHECK(files.ReadExtra());
  return files;
}

Status TokenizerFiles::ReadAdded() {
  const Json* list = Tokenizer("added_tokens");
  if (list == nullptr) return Ok();
  const std::string where = Cat(PathOf("tokenizer.json"), ": added_tokens");
  if (!list->is_array()) return WrongToken(where, *list);
  SHARD_CHECK(CheckTokenCount(where, list->size()));
  for (const Json& value : *list) {
    const Json* id = value.is_object() ? Member(&value, "id") : nullptr;
    if (id == nullptr) return WrongToken(where, value);
    SHARD_TRY(AddedToken token, TokenOf(where, value, *id));
    added_.push_back(std::move(token));
  }
  return Ok();
}

Status TokenizerFiles::ReadDecoder() {
  const Json* decoder = Config("added_tokens_decoder");
  if (decoder == nullptr) return Ok();
  const std::string where = Cat(PathOf("tokenizer_config.json"), ": added_tokens_decoder");
  if (!decoder->is_object()) return WrongToken(where, *decoder);
  SHARD_CHECK(CheckTokenCount(where, decoder->size()));
  for (const auto& [key, value] : decoder->items()) {
    const std::optional<uint64_t> id = ParseUint(key);
    if (!id) return WrongToken(Cat(where, ": ", Quoted(key)), value);
    SHARD_TRY(AddedToken token, TokenOf(where, value, Json(*id)));
    decoder_.push_back(std::move(token));
  }
  SortById(decoder_);
  return Ok();
}

Status TokenizerFiles::ReadExtra() {
  const std::string path = PathOf("added_tokens.json");
  SHARD_TRY(const std::shared_ptr<const Json> json, ReadObject(*tree_, "added_tokens.json"));
  SHARD_CHECK(CheckTokenCount(path, json->size()));
  for (const auto& [text, id] : json->items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() >= UINT32_MAX) {
      return WrongToken(Cat(path, ": ", Quoted(text)), id);
    }
    extra_.push_back({id.get<uint32_t>(), text, false});
  }
  SortById(extra_);
  return Ok();
}

}  // namespace moepack
