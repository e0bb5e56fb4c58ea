// Text between special tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime-shim/tokenizer/token_table.h"

namespace moepack::runtime {

// A token, or text that is not empty.
struct Fragment {
  std::string_view text;
  std::optional<uint32_t> token;
};

// Finds added tokens in texts. The table must outlive it.
class FragmentSplitter {
 public:
  explicit FragmentSplitter(const TokenTable& table);
  // Control, unknown and user-defined tokens, the longest text first, and for equal lengths the
  // lower id: every occurrence from left to right in what earlier ones left. Without
  // `parse_special` only the user-defined ones. The fragments view `text`.
  std::vector<Fragment> Split(std::string_view text, bool parse_special) const;

 private:
  const TokenTable& table_;
  std::vector<uint32_t> special_;
};

}  // namespace moepack::runtime
