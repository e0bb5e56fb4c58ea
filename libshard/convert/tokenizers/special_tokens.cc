#include "libshard/convert/tokenizers/special_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr const char* kKinds[] = {"bos", "eos", "unk", "sep", "pad", "cls", "mask"};

// The names of the keys; cls has none.
struct IdKey {
  const char* kind;
  const char* key;
};
constexpr IdKey kIdKeys[] = {
    {"bos", "tokenizer.ggml.bos_token_id"},     {"eos", "tokenizer.ggml.eos_token_id"},
    {"eot", "tokenizer.ggml.eot_token_id"},     {"eom", "tokenizer.ggml.eom_token_id"},
    {"unk", "tokenizer.ggml.unknown_token_id"}, {"sep", "tokenizer.ggml.seperator_token_id"},
    {"pad", "tokenizer.ggml.padding_token_id"}, {"mask", "tokenizer.ggml.mask_token_id"},
};

// {"SpecialToken": {"id": "<s>"}} -> "<s>", "" for other kinds of pieces.
std::string PieceId(const Json& piece, const char* kind) {
  if (!piece.is_object()) return {};
  const auto found = piece.find(kind);
  return found != piece.end() && found->is_object() ? TextMember(*found, "id") : std::string();
}

std::vector<const Json*> Items(const Json& object, const char* key) {
  std::vector<const Json*> items;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return items;
  for (const Json& item : *found) items.push_back(&item);
  return items;
}

// Collects what tokenizer_config.json and the post-processor say, by content; ids are looked up
// last.
class Reader {
 public:
  explicit Reader(const TokenizerFiles& files) : files_(files) {
    for (const char* kind : kKinds) ReadContent(kind);
    if (files.tokenizer() == nullptr) return;
    // A model that has only a classification or separator token uses it for both purposes.
    if (!Has("bos") && Has("cls")) contents_["bos"] = contents_["cls"];
    if (!Has("eos") && Has("sep")) contents_["eos"] = contents_["sep"];
    const Json* post = files.Tokenizer("post_processor");
    if (post == nullptr || !post->is_object()) return;
    std::vector<const Json*> processors = Items(*post, "processors");
    if (processors.empty()) processors = {post};
    for (const Json* processor : processors) ReadProcessor(*processor);
  }

  SpecialTokens Take() {
    if (files_.config() == nullptr) return std::move(out_);
    for (const char* kind : kKinds) {
      const Json* add = files_.Config(Cat("add_", kind, "_token").c_str());
      if (add != nullptr && add->is_boolean()) out_.add[kind] = add->get<bool>();
    }
    for (const auto& [kind, content] : contents_) {
      const auto token =
          std::find_if(files_.added().begin(), files_.added().end(),
                       [&content = content](const auto& t) { return t.text == content; });
      if (token != files_.added().end()) out_.ids[kind] = token->id;
    }
    return std::move(out_);
  }

 private:
  bool Has(const std::string& kind) const { return contents_.contains(kind); }

  // "bos_token": a string or an object with its content.
  void ReadContent(const char* kind) {
    const Json* value = files_.Config(Cat(kind, "_token").c_str());
    if (value == nullptr) return;
    const std::string content = value->is_string()   ? value->get<std::string>()
                                : value->is_object() ? TextMember(*value, "content")
                                                     : std::string();
    if (!content.empty()) contents_[kind] = content;
  }

  bool Is(const std::string& token, std::initializer_list<const char*> kinds) const {
    return std::any_of(kinds.begin(), kinds.end(), [&](const char* kind) {
      const auto found = contents_.find(kind);
      return found != contents_.end() && found->second == token;
    });
  }

  void ReadProcessor(const Json& processor) {
    if (!processor.is_object()) return;
    const std::string type = TextMember(processor, "type");
    if (type == "RobertaProcessing") {
      for (const char* kind : {"bos", "eos", "sep"}) out_.add[kind] = true;
    }
    if (type != "TemplateProcessing") return;
    std::string first, last;
    const std::vector<const Json*> single = Items(processor, "single");
    if (single.size() > 1) {
      first = PieceId(*single.front(), "SpecialToken");
      last = PieceId(*single.back(), "SpecialToken");
      if (!first.empty()) ReadFirst(first);
      if (!last.empty()) ReadLast(last);
    }
    ReadPair(Items(processor, "pair"), first, last);
  }

  void ReadFirst(const std::string& first) {
    if (files_.config() == nullptr) contents_["bos"] = first;
    out_.add["bos"] = Is(first, {"bos", "cls"});
  }

  // The token that ends a text is the end of sequence; the token so called before only ends a turn.
  void ReadLast(const std::string& last) {
    if (!Is(last, {"eos"}) && files_.config() != nullptr && Has("eos")) {
      contents_[Has("eot") ? "eom" : "eot"] = contents_["eos"];
    }
    contents_["eos"] = last;
    out_.add["eos"] = true;
  }

  // Between the texts of "A [sep] [eos] B", after removing what surrounds both.
  void ReadPair(std::vector<const Json*> pair, const std::string& first, const std::string& last) {
    const auto is = [](const Json* piece, const std::string& token) {
      return !token.empty() && PieceId(*piece, "SpecialToken") == token;
    };
    if (!pair.empty() && is(pair.front(), first)) pair.erase(pair.begin());
    if (!pair.empty() && is(pair.back(), last)) pair.pop_back();
    if (pair.size() < 3 || PieceId(*pair.front(), "Sequence") != "A" ||
        PieceId(*pair.back(), "Sequence") != "B") {
      return;
    }
    const auto separates = [&](const Json* piece) {
      const std::string token = PieceId(*piece, "SpecialToken");
      return !token.empty() && Is(token, {"sep", "eos"});
    };
    const bool add =
        (separates(pair[1]) && last.empty()) || (pair.size() == 4 && separates(pair[2]));
    out_.add["sep"] = add;
    if (add && !Has("sep") && Has("eos")) contents_["sep"] = contents_["eos"];
  }

  const TokenizerFiles& files_;
  std::map<std::string, std::string> contents_;
  SpecialTokens out_;
};

}  // namespace

Result<SpecialTokens> ReadSpecialTokens(const TokenizerFiles& files, const HfConfig& config,
                                        uint32_t tokens) {
  SpecialTokens special = Reader(files).Take();
  std::erase_if(special.ids, [&](const auto& entry) { return entry.second >= tokens; });
  for (const char* kind : kKinds) {
    const auto field = config.FindAtRoot({Cat(kind, "_token_id").c_str()});
    if (!field || !field->value->is_number_unsigned()) continue;
    const auto id = field->value->get<uint64_t>();
    if (id < tokens) special.ids.try_emplace(kind, static_cast<uint32_t>(id));
  }
  return special;
}

void SetByText(const TokenizerFiles& files, const std::vector<SpecialText>& texts, uint32_t tokens,
               SpecialTokens& special) {
  const std::vector<AddedToken>& added =
      files.tokenizer() == nullptr ? files.decoder() : files.added();
  for (const SpecialText& row : texts) {
    const auto token = std::find_if(added.begin(), added.end(),
                                    [&](const AddedToken& t) { return t.text == row.text; });
    if (token == added.end() || token->id >= tokens) continue;
    special.ids.try_emplace(row.kind, token->id);
  }
}

void SetTurnEnd(const HfConfig& config, uint32_t tokens, SpecialTokens& special) {
  const auto ends = config.FindAtRoot({"eos_token_id"});
  if (!ends || !ends->value->is_array()) return;
  const auto begin = config.FindAtRoot({"bos_token_id"});
  for (const Json& id : *ends->value) {
    if (!id.is_number_unsigned() || (begin && id == *begin->value)) continue;
    if (id.get<uint64_t>() < tokens) special.ids["eot"] = id.get<uint32_t>();
    return;
  }
}

void AddSpecialTokens(const SpecialTokens& special, GgufMetadata& metadata) {
  const auto set = [&](std::string_view key, GgufValue value) {
    if (metadata.Find(key) == nullptr) metadata.Set(key, std::move(value));
  };
  for (const IdKey& row : kIdKeys) {
    const auto id = special.ids.find(row.kind);
    if (id != special.ids.end()) set(row.key, GgufValue::U32(id->second));
  }
  for (const char* kind : {"bos", "sep", "eos"}) {
    const auto add = special.add.find(kind);
    if (add != special.add.end()) {
      set(Cat("tokenizer.ggml.add_", kind, "_token"), GgufValue::Bool(add->second));
    }
  }
}

Status AddSpacePrefix(const TokenizerFiles& files, const Vocabulary& /*vocabulary*/,
                      GgufMetadata& metadata) {
  const Json* prefix = files.Config("add_prefix_space");
  if (prefix == nullptr || !prefix->is_boolean()) return Ok();
  metadata.Set("tokenizer.ggml.add_space_prefix", GgufValue::Bool(prefix->get<bool>()));
  return Ok();
}

}  // namespace moepack
