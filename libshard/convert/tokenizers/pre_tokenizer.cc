#include "libshard/convert/tokenizers/pre_tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr size_t kMaxSteps = 64;

// The steps in order, one per line, and the names for them, the usual one first. Several names can
// mean the same splitting and differ in what comes before or after it (special tokens, clean-up).
struct Row {
  std::string_view steps;
  std::vector<std::string_view> names;
};

// Regular expressions as the tokenizer.json files of the named models have them; see "Pre-tokenizer
// id" in llama.cpp's converter for the models.
const std::vector<Row>& Table() {
  static const std::vector<Row> table = {
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
       R"(|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"qwen2", "hunyuan"}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
       R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"qwen35"}},
      {R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
       R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"llama-bpe", "glm4", "pixtral"}},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
       R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
       R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+)"
       R"(|\s+(?!\S)|\s+)",
       {"gpt-4o", "llama4", "minimax-m2"}},
      {R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
       R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
       R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       // llama.cpp's converter detects "pixtral" for Nemotron-3, whose vocabulary is not Tekken's.
       {"tekken", "pixtral"}},
      {"\\p{N}{1,3}\n"
       "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+\n"
       R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
       R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"deepseek-v3"}},
      {"[\\r\\n]\n"
       "<cased letters>\n"
       "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+\n"
       "\\s+$\n"
       "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+\n"
       "<digits>",
       {"deepseek-llm"}},
      // tiktoken's, for Kimi if someone converted it to a tokenizer.json.
      {R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*)"
       R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
       R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+)"
       R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
       R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
       {"kimi-k2"}},
      {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*)"
       R"(|\s*[\r\n]|\s+(?!\S)|\s+)",
       {"bailingmoe", "bailingmoe2", "llada-moe"}},
      {"<GPT-2>", {"gpt-2", "olmo"}},
      {"<digits>\n<GPT-2>", {"refact", "starcoder"}},
  };
  return table;
}

// A regular expression with its line breaks written as escapes, as in most files.
std::string Spelled(const std::string& regex) {
  std::string out;
  for (const char c : regex) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      out += c;
    }
  }
  return out;
}

bool Flag(const Json& object, const char* key, bool fallback) {
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() ? found->get<bool>() : fallback;
}

// Cased letters, range by range, as DeepSeek's first tokenizers list them. Their files differ in
// how some of the letters are composed.
bool IsCasedLetters(const std::string& regex) {
  return regex.starts_with("\\s?[A-Za-z\u00b5\u00c0-\u00d6") && regex.ends_with("]+");
}

// The effect of one step; "" for one that changes nothing. Unknown steps are returned as they are,
// so that they match no row.
std::string StepOf(const Json& step) {
  const std::string type = TextMember(step, "type");
  if (type == "ByteLevel") {
    const std::string prefix = Flag(step, "add_prefix_space", true) ? "<prefix space>" : "";
    return prefix + (Flag(step, "use_regex", true) ? "<GPT-2>" : "");
  }
  if (type == "Digits") {
    return Flag(step, "individual_digits", false) ? "<digits>" : "<Digits>";
  }
  const auto pattern = step.find("pattern");
  if (type != "Split" || pattern == step.end() || !pattern->is_object()) return Cat("<", type, ">");
  std::string regex = Spelled(TextMember(*pattern, "Regex"));
  if (IsCasedLetters(regex)) regex = "<cased letters>";
  const std::string behavior = TextMember(step, "behavior");
  const bool invert = Flag(step, "invert", false);
  // Removing what does not match is the same: these expressions match everything.
  if ((behavior == "Isolated" && !invert) || (behavior == "Removed" && invert)) return regex;
  return Cat("<", behavior, invert ? ", inverted" : "", ">", regex);
}

// The steps of `object`, whose type may be "Sequence" with a list of them under `list`.
std::vector<Json> StepsOf(const Json& object, const char* list) {
  const bool sequence = object.is_object() && TextMember(object, "type") == "Sequence";
  const auto steps = sequence ? object.find(list) : object.end();
  const bool usable = sequence && steps != object.end() && steps->is_array();
  if (!usable || steps->size() > kMaxSteps) return {object};
  return {steps->begin(), steps->end()};
}

}  // namespace

Result<std::string> RecognisePreTokenizer(const std::string& where, const Json& pre_tokenizer,
                                          std::string_view family_pre) {
  std::vector<std::string> steps;
  for (const Json& step : StepsOf(pre_tokenizer, "pretokenizers")) {
    std::string text = step.is_object() ? StepOf(step) : "<no object>";
    if (!text.empty()) steps.push_back(std::move(text));
  }
  const std::string found = Join(steps, "\n");
  for (const Row& row : Table()) {
    if (row.steps != found) continue;
    const bool fits = std::find(row.names.begin(), row.names.end(), family_pre) != row.names.end();
    return std::string(fits ? family_pre : row.names.front());
  }
  return Error{Code::kUnsupported,
               Cat(where, ": pre_tokenizer: expected one that llama.cpp has a name for, found ",
                   Quoted(found)),
               "if you know the name, give it with --pre NAME (docs/conversion.md)"};
}

Status CheckNormalizer(const std::string& where, const Json& normalizer) {
  for (const Json& step : StepsOf(normalizer, "normalizers")) {
    if (step.is_null()) continue;
    const std::string type = step.is_object() ? TextMember(step, "type") : std::string();
    if (type == "NFC") continue;
    return Error{Code::kUnsupported,
                 Cat(where, ": normalizer: expected none or NFC, found ",
                     type.empty() ? DescribeJson(step) : Quoted(type)),
                 "the runtime would not normalise; if a pre-tokenizer of llama.cpp fits all the "
                 "same, name it with --pre NAME (docs/conversion.md)"};
  }
  return Ok();
}

}  // namespace moepack
