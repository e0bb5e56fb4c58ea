// The vocabulary of a model from GGUF metadata: what each id is, and the ids with a special
// meaning.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text_map.h"
#include "libshard/convert/tokenizers/tokenizer.h"
#include "libshard/format/gguf_metadata.h"

namespace moepack::runtime {

// What applies if the metadata has no key.
struct TokenDefaults {
  std::optional<uint32_t> bos, eos;  // dropped if the vocabulary is smaller
  bool add_bos = false;
  bool always_bos = false;  // whatever tokenizer.ggml.add_bos_token says
};

// Views point into it, so it may be moved but not copied.
class TokenTable {
 public:
  // Reads tokenizer.ggml.{tokens,token_type,scores,*_token_id,add_*_token}; `path` names the file
  // in errors. kCorrupt for a key with the wrong type, lists of unequal length, two ids with the
  // same text, an id outside the vocabulary, a score that is not a number, or a token to add that
  // is not named. kUnsupported for more tokens than a model has.
  static Result<TokenTable> Read(const std::string& path, const GgufMetadata& metadata,
                                 const TokenDefaults& defaults);
  TokenTable(TokenTable&&) = default;
  TokenTable& operator=(TokenTable&&) = default;

  uint32_t size() const { return static_cast<uint32_t>(texts_.size()); }
  // REQUIRES for both: id < size().
  const std::string& text(uint32_t id) const { return texts_[id]; }
  TokenType type(uint32_t id) const { return types_[id]; }
  std::optional<uint32_t> Find(std::string_view text) const;

  const std::vector<float>& scores() const { return scores_; }  // one each, 0 without the key
  std::optional<uint32_t> bos() const { return bos_; }
  std::optional<uint32_t> eos() const { return eos_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool IsEnd(uint32_t id) const { return id < size() && ends_[id]; }

 private:
  TokenTable() = default;
  Status ReadTexts(const std::string& path, const GgufMetadata& metadata);
  Status ReadTypes(const std::string& path, const GgufMetadata& metadata);
  Status ReadScores(const std::string& path, const GgufMetadata& metadata);
  Status ReadIds(const std::string& path, const GgufMetadata& metadata,
                 const TokenDefaults& defaults);
  void FindEnds(const GgufMetadata& metadata);
  bool HasEnd(std::string_view text) const;

  std::vector<std::string> texts_;
  TextMap<std::string_view, uint32_t> ids_;
  std::vector<TokenType> types_;
  std::vector<float> scores_;
  std::vector<bool> ends_;
  std::optional<uint32_t> bos_, eos_;
  bool add_bos_ = false, add_eos_ = false;
};

}  // namespace moepack::runtime
