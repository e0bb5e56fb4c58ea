// Regular expressions. This class alone talks to PCRE2, and it is the only regex engine of the
// tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack {

enum class RegexSyntax : uint8_t {
  // For expressions that users write: as llama.cpp's std::regex reads them, and what PCRE2 knows
  // besides. [] holds nothing, [^] everything, \u0041 is a letter, $ is the very end; \w, \d and \s
  // are ASCII.
  kEcmaScript,
  // For expressions of tokenizers: PCRE2's own, where \w, \d and \s follow Unicode.
  kPerl,
};

struct RegexOptions {
  RegexSyntax syntax = RegexSyntax::kEcmaScript;
  bool machine_code = false;  // compiled where PCRE2 can: worth it for long texts only
  // What one search may take. An honest expression needs a few steps per byte of a tensor's name.
  uint32_t max_steps = 1'000'000;
  uint32_t max_depth = 100'000;  // alternatives that are open at once
  uint32_t max_heap_kib = 64u << 10;
};

// Copyable; several threads may use one.
class Regex {
 public:
  // kInvalidArgument says at which byte of `pattern` it stops making sense.
  static Result<Regex> Compile(std::string_view pattern, const RegexOptions& options = {});

  // Whether any part of `text` matches. kInvalidArgument for an expression that takes more than its
  // options allow, and for a text that is not UTF-8.
  Result<bool> Search(std::string_view text) const;

  struct Match {
    size_t begin = 0, end = 0;
  };
  // The room that matching needs, made once for many searches of one thread. Borrows the Regex.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    // The first match that begins at `from` or behind it. Errors are those of Search.
    // REQUIRES: `text` is UTF-8, and `from` is between two characters.
    Result<std::optional<Match>> Find(std::string_view text, size_t from);

   private:
    friend class Regex;
    struct Room;
    Result<std::optional<Match>> Run(std::string_view text, size_t from, uint32_t flags);

    const Regex& regex_;
    std::shared_ptr<Room> room_;
  };

 private:
  struct Code;
  explicit Regex(std::shared_ptr<const Code> code) : code_(std::move(code)) {}
  std::shared_ptr<const Code> code_;
};

}  // namespace moepack
