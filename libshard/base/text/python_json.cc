#include "libshard/base/text/python_json.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr std::string_view kInfinity = "Infinity";

// The length of the bare word Infinity or -Infinity at the start of `text`; 0 if there is none.
size_t InfinityLength(std::string_view text) {
  const size_t sign = text.starts_with('-') ? 1 : 0;
  return text.substr(sign).starts_with(kInfinity) ? sign + kInfinity.size() : 0;
}

// Whether a colon follows: keys are strings, and a bare word as a key is an error.
bool IsKey(std::string_view behind) {
  const size_t at = behind.find_first_not_of(" \t\n\r");
  return at != std::string_view::npos && behind[at] == ':';
}

Result<std::string> QuoteInfinity(const std::string& where, std::string_view text) {
  std::string out;
  out.reserve(text.size() + 16);
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (quoted && text[i] == '\\') {
      out += rest.substr(0, 2);
      ++i;
      continue;
    }
    if (text[i] == '"') quoted = !quoted;
    if (!quoted && rest.starts_with("NaN")) {
      return Error{Code::kCorrupt, Cat(where, ": byte ", i, ": expected a number, found NaN"),
                   "the checkpoint was saved by a faulty run; take config.json from the original"};
    }
    const size_t length = quoted ? 0 : InfinityLength(rest);
    if (length > 0 && !IsKey(rest.substr(length))) {
      out += Cat('"', rest.substr(0, length), '"');
      i += length - 1;
      continue;
    }
    out += text[i];
  }
  return out;
}

}  // namespace

Result<Json> ParsePythonJson(const std::string& where, std::string_view text) {
  SHARD_TRY(const std::string json, QuoteInfinity(where, text));
  return ParseJson(where, json);
}

std::string WritePythonJson(const Json& document) {
  std::string text = WriteJson(document);
  for (const std::string& word : {Cat('"', kInfinity, '"'), Cat("\"-", kInfinity, '"')}) {
    for (size_t at = 0; (at = text.find(word, at)) != std::string::npos;) {
      const bool is_key = text.compare(at + word.size(), 1, ":") == 0;
      // After a backslash, the quote belongs to a string and does not open one.
      const bool opens = at == 0 || text[at - 1] != '\\';
      if (opens && !is_key) text.replace(at, word.size(), word.substr(1, word.size() - 2));
      at += word.size() - 2;
    }
  }
  return text;
}

}  // namespace moepack
