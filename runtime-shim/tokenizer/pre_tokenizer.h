// How the text of a byte-level BPE model is split into words, by tokenizer.ggml.pre
// (docs/runtime-shim.md).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/regex.h"

namespace moepack::runtime {

// One regular expression of a pre-tokenizer, with Unicode properties.

class Pattern {
 public:
  // Errors are those of Regex.
  static Result<Pattern> Compile(std::string_view expression);

  // Splits each piece separately into matches and the text between them, in order; nothing is
  // dropped. The pieces are valid UTF-8. kUnsupported if a match needs more steps or memory than
  // any text that is not an attack.
  Result<std::vector<std::string_view>> Split(const std::vector<std::string_view>& pieces) const;

 private:
  explicit Pattern(Regex regex) : regex_(std::move(regex)) {}
  Regex regex_;
};

// What an id means apart from its expressions.
struct PreTokenizerTraits {
  bool whole_words = false;  // a word that is a token is that token, whatever the merges say
  bool add_bos = false;      // unless tokenizer.ggml.add_bos_token says otherwise
  bool default_bos = true;   // there is a beginning-of-sequence token without a key for it
  bool needs_merges = true;  // tokenizer.ggml.merges must exist
};

class PreTokenizer {
 public:
  // kUnsupported for an id that is not in the table.
  static Result<PreTokenizer> Find(std::string_view id);

  const PreTokenizerTraits& traits() const { return traits_; }
  // The words of `text` (valid UTF-8), which they view: each expression splits what the previous
  // one left, and what no expression matches stays as it is. Errors are those of Pattern::Split.
  Result<std::vector<std::string_view>> Split(std::string_view text) const;

 private:
  PreTokenizerTraits traits_;
  std::vector<Pattern> steps_;
};

}  // namespace moepack::runtime
