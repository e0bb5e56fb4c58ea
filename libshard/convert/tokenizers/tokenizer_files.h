// The JSON files around a tokenizer, read once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/base/text/json.h"

namespace moepack {

// A token beside the actual vocabulary: control tokens, chat markers.
struct AddedToken {
  uint32_t id = 0;
  std::string text;
  bool special = false;
};

class TokenizerFiles {
 public:
  // Reads those of tokenizer.json, tokenizer_config.json and added_tokens.json that exist.
  static Result<TokenizerFiles> Read(const SourceTreePtr& tree);

  const SourceTree& tree() const { return *tree_; }
  std::string PathOf(const char* name) const { return tree_->NameOf(name); }
  bool HasFile(const std::string& name) const { return present_.contains(name); }

  // Objects; null if the file does not exist.
  const Json* tokenizer() const { return tokenizer_.get(); }  // tokenizer.json
  const Json* config() const { return config_.get(); }        // tokenizer_config.json
  // Members of these objects; null if absent or null.
  const Json* Tokenizer(const char* key) const;
  const Json* Config(const char* key) const;

  // `added_tokens` of tokenizer.json.
  const std::vector<AddedToken>& added() const { return added_; }
  // `added_tokens_decoder` of tokenizer_config.json, ascending by id.
  const std::vector<AddedToken>& decoder() const { return decoder_; }
  // added_tokens.json, ascending by id.
  const std::vector<AddedToken>& extra() const { return extra_; }

 private:
  Status ReadAdded();
  Status ReadDecoder();
  Status ReadExtra();

  SourceTreePtr tree_;
  std::set<std::string> present_;  // of the names that HasFile is asked for
  std::shared_ptr<const Json> tokenizer_, config_;
  std::vector<AddedToken> added_, decoder_, extra_;
};

// JSON in which integers beyond 64 bits are allowed and become floating point: `model_max_length`
// of most tokenizers is 10^30.
Result<Json> ParseTokenizerJson(const std::string& where, std::string_view text);

}  // namespace moepack
