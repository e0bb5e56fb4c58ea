#include "runtime-shim/tokenizer/pattern.h"

#include <optional>

#include "libshard/base/text/text.h"

namespace moepack::runtime {
namespace {

// Limits for one match. The expressions here need a few steps per byte of the word that they match.
constexpr RegexOptions kOptions = {.syntax = RegexSyntax::kPerl,
                                   .machine_code = true,
                                   .max_steps = 100'000'000,
                                   .max_depth = 100'000'000,
                                   .max_heap_kib = 256u << 10};

// Appends the matches in one piece and the text between them.
Status Cut(std::string_view piece, Regex::Matcher& matcher, std::vector<std::string_view>& out) {
  size_t done = 0;
  while (done < piece.size()) {
    SHARD_TRY(const std::optional<Regex::Match> match, matcher.Find(piece, done));
    // An expression with an empty match finds no more words.
    if (!match || match->end <= match->begin) break;
    if (match->begin > done) out.push_back(piece.substr(done, match->begin - done));
    out.push_back(piece.substr(match->begin, match->end - match->begin));
    done = match->end;
  }
  if (done < piece.size()) out.push_back(piece.substr(done));
  return Ok();
}

}  // namespace

Result<Pattern> Pattern::Compile(std::string_view expression) {
  SHARD_TRY(Regex regex, Regex::Compile(expression, kOptions));
  return Pattern(std::move(regex));
}

Result<std::vector<std::string_view>> Pattern::Split(
    const std::vector<std::string_view>& pieces) const {
  Regex::Matcher matcher(regex_);
  std::vector<std::string_view> out;
  for (const std::string_view piece : pieces) {
    Status cut = Cut(piece, matcher, out);
    if (cut) continue;
    return Error{Code::kUnsupported,
                 Cat("text: expected words that can be found in few steps, found a "
                     "piece of ",
                     piece.size(), " bytes: ", cut.error().message),
                 "cut the text into shorter ones"};
  }
  return out;
}

}  // namespace moepack::runtime
