// ParseModelCard: the front matter of a README.md of any origin, and the keys that it becomes.
#include "libshard/convert/model_card.h"

#include "libshard/base/files/memory_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "tests/fuzz/target.h"

namespace model_card_target {

using moepack::Cat;
using moepack::ModelCard;

constexpr const char* kTree = "damaged";

std::vector<std::string> Seeds() {
  return {
      "---\nlicense: apache-2.0\nlanguage:\n- en\n- \"no\"\ntags: [moe, 'text', 7]  \n"
      "base_model: org/Base-7b-v0.1\nmodel_name: Name # a comment\n---\n# Title\n---\nx: y\n",
      "---\r\nlicense: other\r\nlicense_name: my-own\r\nlicense_link: https://a.b/c\r\n"
      "datasets:\r\n  - org/data\r\n  - https://a.b/d\r\nwidget:\r\n- text: hello\r\n"
      "model-index:\r\n  - name: x\r\n    results: {}\r\n---\r\n",
      "---\npipeline_tag: text-generation\nnested:\n  license: mit\n# comment\nnote: |\n  a\n"
      "link: &x http://a\nnone: null\n---",
      "---\nlicense: mit\ntags: [moe, caf\xe9]\nlanguage: \xff\n---\n"};
}

std::vector<std::string> Refused() {
  return {"", "license: mit\n", "---\nlicense: mit\n", "\n---\nlicense: mit\n---\n"};
}

// Written so that every value is quoted; "" for a value that has both kinds of quotes.
std::string Written(const ModelCard& card) {
  std::string text = "---\n";
  for (const auto& [key, values] : card) {
    text += Cat(key, ":\n");
    for (const std::string& value : values) {
      const char quote = value.find('"') == value.npos ? '"' : '\'';
      if (value.find(quote) != value.npos) return "";
      text += Cat("- ", std::string(1, quote), value, std::string(1, quote), "\n");
    }
  }
  return text + "---\n";
}

std::string CardProblem(const ModelCard& card, std::string_view input) {
  for (const auto& [key, values] : card) {
    if (key.find_first_of(":\n") != key.npos || input.find(key) == input.npos)
      return "a key that is not in the text: " + key;
    for (const std::string& value : values) {
      if (value.empty() || value.find('\n') != value.npos) return "a value of no or several lines";
      if (!moepack::IsUtf8(value)) return "a value that is not UTF-8";
      // Bytes that are not UTF-8 are escaped.
      const bool escaped = !moepack::IsUtf8(input) && value.find("\\x") != value.npos;
      if (!escaped && input.find(value) == input.npos)
        return "a value that is not in the text: " + value;
    }
  }
  const std::string again = Written(card);
  return again.empty() || moepack::ParseModelCard(again) == card ? ""
                                                                 : "another card after writing";
}

// GGUF has texts in UTF-8 only.
std::string KeysProblem(std::string_view input) {
  moepack::MemoryTree tree(kTree);
  tree.Add("README.md", std::string(input));
  moepack::GgufMetadata metadata;
  const auto status = moepack::AddGeneralKeys(tree, "qwen3moe", {"", "qwen3-moe"}, metadata);
  if (!status) return fuzz::ErrorProblem(status.error(), kTree);
  for (const moepack::GgufEntry& entry : metadata.entries()) {
    const auto text = entry.value.AsString();
    if (text && !moepack::IsUtf8(*text)) return Cat(entry.key, " is not UTF-8");
    const auto texts = entry.value.AsStrings();
    for (const std::string_view one : texts.value_or(std::vector<std::string_view>()))
      if (!moepack::IsUtf8(one)) return Cat(entry.key, " has text that is not UTF-8");
  }
  return metadata.String("general.name") ? "" : "a model without a name";
}

std::string Check(std::string_view input) {
  const ModelCard card = moepack::ParseModelCard(input);
  if (std::string problem = CardProblem(card, input); !problem.empty()) return problem;
  // What comes after the front matter does not count.
  if (!card.empty() && moepack::ParseModelCard(Cat(input, "\n---\nlicense: more\n---\n")) != card)
    return "text after the front matter changes the card";
  return KeysProblem(input);
}

bool Accepts(std::string_view input) { return !moepack::ParseModelCard(input).empty(); }

constexpr fuzz::Target kTarget{
    .check = Check, .seeds = Seeds, .iterations = 20'000, .accepts = Accepts, .refused = Refused};

}  // namespace model_card_target

FUZZ_TARGET(FuzzModelCard, model_card_target::kTarget)
