// Determines which group of a distribution a session should go to, using its placement table:
// nothing is run and no weights are loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/plan/placement.h"
#include "runtime-shim/tokenizer/tokenizer.h"

namespace moepack::runtime {

// Returns the tokens without a leading beginning-of-sequence token, which the table has not seen.
std::span<const uint32_t> WithoutBos(std::span<const uint32_t> tokens, std::optional<uint32_t> bos);

// Const functions may be called from several threads at once.
class Placer {
 public:
  // Reads distribution.json, and the tokenizer's files if they exist. kInvalidArgument for a source
  // that is not a distribution or has no placement table.
  static Result<std::unique_ptr<Placer>> Open(const std::string& distribution);

  size_t groups() const { return table_.groups(); }
  const PlacementTable& table() const { return table_; }
  // Returns the tokenizer, or why there is none.
  Result<const Tokenizer*> tokenizer() const;

  // kInvalidArgument for no tokens.
  Result<PlacementAnswer> Place(std::span<const uint32_t> tokens) const;
  // The same for a text in UTF-8; its tokens are those of Tokenizer::Encode. Errors include those
  // of the tokenizer.
  Result<PlacementAnswer> Place(std::string_view text) const;

 private:
  Placer() = default;

  PlacementTable table_;
  std::optional<uint32_t> bos_;
  Result<std::unique_ptr<Tokenizer>> tokenizer_ = std::unique_ptr<Tokenizer>();
};

}  // namespace moepack::runtime
