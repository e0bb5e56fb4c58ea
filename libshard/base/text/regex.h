// Regular expressions. Only this class uses PCRE2, and it is the only regex engine in the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack {

enum class RegexSyntax : uint8_t {
  // For expressions that users write: as llama.cpp's std::regex reads them, plus what else PCRE2
  // knows. [] matches nothing, [^] everything, \u0041 is a letter, $ is the very end; \w, \d and \s
  // are ASCII.
  kEcmaScript,
  // For expressions of tokenizers: PCRE2's own syntax, where \w, \d and \s follow Unicode.
  kPerl,
};

struct RegexOptions {
  RegexSyntax syntax = RegexSyntax::kEcmaScript;
  bool machine_code = false;  // compile where PCRE2 can: only worth it for long texts
  // How many steps one search may take. An honest expression needs a few per byte of a tensor's
  // name.
  uint32_t max_steps = 1'000'000;
  uint32_t max_depth = 100'000;  // alternatives open at once
  uint32_t max_heap_kib = 64u << 10;
};

// Copyable; several threads may use one.
class Regex {
 public:
  // kInvalidArgument says at which byte `pattern` stops making sense.
  static Result<Regex> Compile(std::string_view pattern, const RegexOptions& options = {});

  // Returns a pattern that matches `text` and nothing else.
  static std::string Literal(std::string_view text);

  // Whether any part of `text` matches. kInvalidArgument for an expression that needs more than its
  // options allow, and for text that is not UTF-8.
  Result<bool> Search(std::string_view text) const;

  struct Match {
    size_t begin = 0, end = 0;
  };
  // The memory that matching needs, allocated once for many searches of one thread. Borrows the
  // Regex.
  class Matcher {
   public:
    explicit Matcher(const Regex& regex);
    // The first match that begins at or after `from`. Errors are those of Search. REQUIRES: `text`
    // is UTF-8, and `from` is between two characters.
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
